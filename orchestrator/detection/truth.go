// Package detection says how well traffic states were named: by the proxy while it served, and by a classifier
// afterwards, against the truth, which is known because Retune made the load itself.
//
//	shape ─ Truth ─ spans ┐
//	snapshots ────────────┴─ Of ─ Report: windows {truth, named, classified}, delays ─ Matrix
//	                       └──── Suggest: thresholds that would have told the states apart better
//
// It is pure: shapes and snapshots in, figures out.
package detection

import (
	"cmp"
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

// What the truth is made of. None of it comes from a rule set: its thresholds are what is held against the truth.
const (
	lowShare     = 0.10 // under this share of the shape's highest rate the load is low
	stepUp       = 1.5  // a rate that rises to this many times itself at once is a step
	rampUp       = 1.2  // a phase that ends at this many times the rate that it began with is a ramp
	spikeWindows = 2    // how many windows after a step still belong to it: then the high rate is the usual one
)

// Span is a part of a shape's timeline in one true state. Times count from the start of the measured load.
type Span struct {
	State    traffic.State
	From, To time.Duration
}

// Truth divides a shape's timeline into spans of one true traffic state each, without gaps. window is the proxy's.
// The first that holds wins, in the order of the proxy's own checks:
//
//   - OVERLOADED_NODE from an event that fails a backend, slows it down or makes it answer with errors, until the event
//     that ends just this or revives it. A backend that is down counts until it is back, though the proxy has long stopped asking it.
//   - LOW_TRAFFIC while the planned rate is under a tenth of the shape's highest.
//   - SPIKE for two windows after the rate stepped up to 1.5 times itself or more, at once or by a ramp no longer than a
//     window; less if it falls back before.
//   - GRADUAL_INCREASE in a phase whose rate climbs to 1.2 times what it began with, or more.
//   - HIGH_STABLE otherwise.
//
// A shape without phases (a closed loop, a script alone) has no known truth: nil.
func Truth(s loadtest.Shape, window time.Duration) []Span {
	if len(s.Phases) == 0 || s.Closed != nil {
		return nil
	}
	l := label{s, window, hurts(s), spikes(s, window), lowShare * s.Peak()}
	var spans []Span
	cuts := l.cuts()
	for i, from := range cuts[:len(cuts)-1] {
		state := l.at(from + (cuts[i+1]-from)/2)
		if last := len(spans) - 1; last >= 0 && spans[last].State == state {
			spans[last].To = cuts[i+1]
			continue
		}
		spans = append(spans, Span{state, from, cuts[i+1]})
	}
	return spans
}

// label is what the true state of an instant is read from.
type label struct {
	shape  loadtest.Shape
	window time.Duration
	hurts  []hurt
	spikes []interval
	low    float64 // requests per second
}

type interval struct{ from, to time.Duration }

func (i interval) holds(at time.Duration) bool { return at >= i.from && at < i.to }

// hurt is a backend that an event has made worse.
type hurt struct {
	interval
	backend string
	errors  bool // it fails requests; otherwise it is slow
}

// hurts pairs each event that harms a backend with the one that ends it, or with the shape's end. A control endpoint
// changes what it is told alone: being down, slow and in error last independently, and a revival ends all three.
func hurts(s loadtest.Shape) (all []hurt) {
	events := slices.Clone(s.Events)
	slices.SortStableFunc(events, func(a, b loadtest.Event) int { return cmp.Compare(a.At, b.At) })
	type harm struct{ backend, action string }
	open := map[harm]hurt{}
	end := func(of harm, at time.Duration) {
		if h, is := open[of]; is {
			h.to = at
			all = append(all, h)
			delete(open, of)
		}
	}
	for _, e := range events {
		at := time.Duration(e.At)
		for _, action := range []string{loadtest.ActionFail, loadtest.ActionSlowdown, loadtest.ActionErrorRate} {
			if e.Action == action || e.Action == loadtest.ActionRevive {
				end(harm{e.Backend, action}, at)
			}
		}
		if harms(e) {
			open[harm{e.Backend, e.Action}] = hurt{interval{from: at}, e.Backend, e.Action != loadtest.ActionSlowdown}
		}
	}
	for of := range open {
		end(of, s.Duration())
	}
	return all
}

func harms(e loadtest.Event) bool {
	switch e.Action {
	case loadtest.ActionFail:
		return true
	case loadtest.ActionSlowdown:
		return e.Value > 1
	case loadtest.ActionErrorRate:
		return e.Value > 0
	}
	return false
}

// steps are the instants at which the rate steps up, and the rate before.
func steps(s loadtest.Shape, window time.Duration) (at []time.Duration, base []float64) {
	var start time.Duration
	for i, p := range s.Phases {
		switch {
		case i > 0 && rises(s.Phases[i-1].To, p.From, stepUp):
			at, base = append(at, start), append(base, s.Phases[i-1].To)
		case time.Duration(p.Duration) <= window && rises(p.From, p.To, stepUp):
			at, base = append(at, start), append(base, p.From)
		}
		start += time.Duration(p.Duration)
	}
	return at, base
}

func rises(from, to, times float64) bool { return to > from && to >= times*from }

// spikes are the steps with what still belongs to them.
func spikes(s loadtest.Shape, window time.Duration) (all []interval) {
	at, base := steps(s, window)
	for i, from := range at {
		spike := interval{from, from + spikeWindows*window}
		var start time.Duration
		for _, p := range s.Phases {
			if start > from && start < spike.to && p.From < stepUp*base[i] {
				spike.to = start
			}
			start += time.Duration(p.Duration)
		}
		all = append(all, spike)
	}
	return all
}

// cuts are the instants at which the true state may change, from 0 to the shape's end.
func (l label) cuts() []time.Duration {
	end := l.shape.Duration()
	cuts := []time.Duration{0, end}
	var start time.Duration
	for _, p := range l.shape.Phases {
		cuts = append(cuts, start)
		if (p.From-l.low)*(p.To-l.low) < 0 { // a ramp that crosses the bound of low traffic
			cuts = append(cuts, start+time.Duration(float64(p.Duration)*(l.low-p.From)/(p.To-p.From)))
		}
		start += time.Duration(p.Duration)
	}
	for _, h := range l.hurts {
		cuts = append(cuts, h.from, h.to)
	}
	for _, s := range l.spikes {
		cuts = append(cuts, s.from, s.to)
	}
	cuts = slices.DeleteFunc(cuts, func(c time.Duration) bool { return c < 0 || c > end })
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// at is the true state of an instant.
func (l label) at(t time.Duration) traffic.State {
	switch {
	case slices.ContainsFunc(l.hurts, func(h hurt) bool { return h.holds(t) }):
		return traffic.OverloadedNode
	case l.shape.Rate(t) < l.low:
		return traffic.LowTraffic
	case slices.ContainsFunc(l.spikes, func(s interval) bool { return s.holds(t) }):
		return traffic.Spike
	case l.climbs(t):
		return traffic.GradualIncrease
	}
	return traffic.HighStable
}

func (l label) climbs(t time.Duration) bool {
	var start time.Duration
	for _, p := range l.shape.Phases {
		if (interval{start, start + time.Duration(p.Duration)}).holds(t) {
			return rises(p.From, p.To, rampUp)
		}
		start += time.Duration(p.Duration)
	}
	return false
}

// pure is the least share of a window that has to lie in one state for the window to be of that state.
const pure = 0.9

// truthOf is the true state of a window; empty when it lies across two. Before the measured load there was the
// warm-up, at the first phase's rate.
func truthOf(spans []Span, from, to time.Duration) traffic.State {
	in := map[traffic.State]time.Duration{}
	for i, s := range spans {
		if i == 0 {
			s.From = min(s.From, from)
		}
		in[s.State] += max(0, min(to, s.To)-max(from, s.From))
	}
	for state, part := range in {
		if part.Seconds() >= pure*(to-from).Seconds() {
			return state
		}
	}
	return ""
}
