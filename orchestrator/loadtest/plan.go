package loadtest

import (
	"math"
	"slices"
	"time"
)

// factors is how a profile scales durations; rates stay as they are.
var factors = map[Profile]float64{Quick: 0.2, Standard: 1, Nightly: 3}

// Scaled is the shape with its durations as the profile wants them; shape files are written for Standard.
func (s Shape) Scaled(p Profile) Shape {
	f, ok := factors[p]
	if !ok {
		f = 1
	}
	scale := func(d Duration) Duration { return Duration(math.Round(float64(d) * f)) }
	s.Phases, s.Events = slices.Clone(s.Phases), slices.Clone(s.Events)
	for i := range s.Phases {
		s.Phases[i].Duration = scale(s.Phases[i].Duration)
	}
	for i := range s.Events {
		s.Events[i].At = scale(s.Events[i].At)
	}
	if s.Closed != nil {
		c := *s.Closed
		c.Duration = scale(c.Duration)
		s.Closed = &c
	}
	return s
}

// Duration is how long the measured load lasts.
func (s Shape) Duration() time.Duration {
	if s.Closed != nil {
		return time.Duration(s.Closed.Duration)
	}
	var sum Duration
	for _, p := range s.Phases {
		sum += p.Duration
	}
	return time.Duration(sum)
}

// Planned is how many requests the shape asks for; 0 for a closed loop, which sends what it can.
func (s Shape) Planned() int64 {
	var sum float64
	for _, p := range s.Phases {
		sum += p.requests()
	}
	return wholeRequests(sum)
}

// wholeRequests forgives float64 its last digits: three times 0.1 s at 10 a second are 3 requests.
func wholeRequests(n float64) int64 { return int64(math.Floor(n + 1e-6)) }

// Rate is the requests per second asked for at an instant of the measured load; 0 outside it. At a step it is the
// rate after the step.
func (s Shape) Rate(at time.Duration) float64 {
	p, into, ok := s.phaseAt(at)
	if !ok {
		return 0
	}
	return p.From + (p.To-p.From)*into.Seconds()/time.Duration(p.Duration).Seconds()
}

// Peak is the highest rate asked for.
func (s Shape) Peak() (peak float64) {
	for _, p := range s.Phases {
		peak = max(peak, p.From, p.To)
	}
	return peak
}

// phaseAt is the phase that holds at an instant, and how far into it that is.
func (s Shape) phaseAt(at time.Duration) (Phase, time.Duration, bool) {
	for _, p := range s.Phases {
		if at >= 0 && at < time.Duration(p.Duration) {
			return p, at, true
		}
		at -= time.Duration(p.Duration)
	}
	return Phase{}, 0, false
}

// requests is the area under the phase's rate.
func (p Phase) requests() float64 {
	return (p.From + p.To) / 2 * time.Duration(p.Duration).Seconds()
}

// until is how long after the phase's start n requests have been asked for: the root of from·t + slope·t²/2 = n,
// in the form that keeps its digits when the slope is next to nothing.
func (p Phase) until(n float64) time.Duration {
	slope := (p.To - p.From) / time.Duration(p.Duration).Seconds()
	root := math.Sqrt(max(0, p.From*p.From+2*slope*n))
	if p.From+root == 0 {
		return 0
	}
	return time.Duration(2 * n / (p.From + root) * float64(time.Second))
}

// timeline is the instants at which phases ask for requests, evenly spaced along the rate, as k6 does it.
type timeline struct {
	phases []Phase
	starts []time.Duration // of each phase
	before []float64       // requests asked for before each phase
	total  int64
}

// newTimeline lays the phases end to end.
func newTimeline(phases []Phase) timeline {
	t := timeline{phases: phases}
	var at time.Duration
	var n float64
	for _, p := range phases {
		t.starts, t.before = append(t.starts, at), append(t.before, n)
		at += time.Duration(p.Duration)
		n += p.requests()
	}
	t.total = wholeRequests(n)
	return t
}

// due is when request n, counted from 0, is to start.
func (t timeline) due(n int64) time.Duration {
	i, found := slices.BinarySearch(t.before, float64(n))
	if !found {
		i--
	}
	for i+1 < len(t.before) && t.before[i+1] <= float64(n) { // phases that ask for nothing
		i++
	}
	return t.starts[i] + t.phases[i].until(float64(n)-t.before[i])
}
