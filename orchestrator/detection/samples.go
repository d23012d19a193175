package detection

import (
	"math"
	"slices"
	"time"

	"retune/proxy/traffic"
)

// timeline is a run's windows with their true states, and what was done to its backends.
type timeline struct {
	Observed
	window time.Duration
	spans  []Span
	seen   []traffic.Snapshot // within the measured load, oldest first
	truth  []traffic.State    // of each
	hurts  []hurt
}

// newTimeline is false where no window was seen.
func newTimeline(o Observed) (t timeline, known bool) {
	seen := Measured(o.Shape, o.Started, o.Snapshots)
	if len(seen) == 0 {
		return timeline{}, false
	}
	t = timeline{Observed: o, window: seen[0].Window, spans: Truth(o.Shape, seen[0].Window), seen: seen, hurts: hurts(o.Shape)}
	for _, s := range seen {
		at := s.At.Sub(o.Started)
		t.truth = append(t.truth, truthOf(t.spans, at-s.Window, at))
	}
	return t, true
}

// windows gives the samples of windows whose true state is one of those named.
func (t timeline) windows(is traffic.State, others []traffic.State, value func(traffic.Snapshot) (float64, bool)) (all []sample) {
	for i, s := range t.seen {
		v, known := value(s)
		if known && (t.truth[i] == is || slices.Contains(others, t.truth[i])) {
			all = append(all, sample{v, t.truth[i] == is})
		}
	}
	return all
}

// lowSamples are windows by their rps; those with an overloaded backend say nothing about the load.
func lowSamples(_ traffic.Detection, t timeline) []sample {
	others := []traffic.State{traffic.Spike, traffic.GradualIncrease, traffic.HighStable}
	return t.windows(traffic.LowTraffic, others, func(s traffic.Snapshot) (float64, bool) { return s.RPS, true })
}

func changeRate(s traffic.Snapshot) (float64, bool) {
	if s.RPSChangeRate == nil {
		return 0, false
	}
	return *s.RPSChangeRate, true
}

// gradualSamples are the windows of ramps, and those of steady load, by their change rate.
func gradualSamples(_ traffic.Detection, t timeline) []sample {
	return t.windows(traffic.GradualIncrease, []traffic.State{traffic.HighStable}, changeRate)
}

// spikeSamples are the steps up, each by the highest change rate of the windows that end within two windows of it: no
// window shows a step that it began after. The others are windows of ramps and of steady load.
func spikeSamples(_ traffic.Detection, t timeline) []sample {
	others := []traffic.State{traffic.GradualIncrease, traffic.HighStable}
	all := slices.DeleteFunc(t.windows(traffic.Spike, others, changeRate), func(s sample) bool { return s.is })
	at, _ := steps(t.Shape, t.window)
	for _, step := range at {
		highest, known := math.Inf(-1), false
		for _, s := range t.seen {
			if since := s.At.Sub(t.Started) - step; since > 0 && since <= spikeWindows*t.window {
				if v, is := changeRate(s); is {
					highest, known = max(highest, v), true
				}
			}
		}
		if known {
			all = append(all, sample{highest, true})
		}
	}
	return all
}

// backends gives the samples of backends in windows: those that an event harmed throughout the window, and all of the
// windows in which no backend was. What an overloaded backend does to the others is left out.
func (t timeline) backends(errors bool, value func(traffic.BackendSnapshot) (float64, bool)) (all []sample) {
	for i, s := range t.seen {
		to := s.At.Sub(t.Started)
		for _, b := range s.Backends {
			v, known := value(b)
			harmed := slices.ContainsFunc(t.hurts, func(h hurt) bool {
				return h.backend == b.ID && h.errors == errors && h.from <= to-s.Window && h.to >= to
			})
			healthy := t.truth[i] != "" && t.truth[i] != traffic.OverloadedNode
			if known && b.Requests >= traffic.MinVolume && (harmed || healthy) {
				all = append(all, sample{v, harmed})
			}
		}
	}
	return all
}

func errorSamples(_ traffic.Detection, t timeline) []sample {
	return t.backends(true, func(b traffic.BackendSnapshot) (float64, bool) { return b.ErrorRate, true })
}

// latencySamples are backends that are past the factor already: the bound decides alone.
func latencySamples(d traffic.Detection, t timeline) []sample {
	return t.backends(false, func(b traffic.BackendSnapshot) (float64, bool) {
		return b.AvgLatencyMS, b.LongAvgLatencyMS > 0 && b.AvgLatencyMS >= d.OverloadLatencyFactor*b.LongAvgLatencyMS
	})
}

// factorSamples are backends that are past the bound already: the factor decides alone.
func factorSamples(d traffic.Detection, t timeline) []sample {
	return t.backends(false, func(b traffic.BackendSnapshot) (float64, bool) {
		if b.LongAvgLatencyMS <= 0 || b.AvgLatencyMS <= ms(d.OverloadLatency) {
			return 0, false
		}
		return b.AvgLatencyMS / b.LongAvgLatencyMS, true
	})
}
