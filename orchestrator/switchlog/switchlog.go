// Package switchlog says what each switch of algorithm brought: p95, RPS and errors before it and after it.
//
// It is pure: decisions and snapshots in, switches with figures out. Before and after are whole windows as the proxy
// measured them, so that a p95 is never an average of p95s. What came after a switch did not all come of it: in a
// spike the load changes too. A switch is evidence beside the scenarios' own figures, not in place of them.
package switchlog

import (
	"math"
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// Switch is one change of algorithm, and what it brought.
type Switch struct {
	Scenario  string            `json:"scenario"`
	AtS       float64           `json:"at_s"` // from the start of the measured phase
	State     traffic.State     `json:"state"`
	From      balance.Algorithm `json:"from"`
	To        balance.Algorithm `json:"to"`
	Before    Figures           `json:"before"` // the window that led to the switch
	After     Figures           `json:"after"`  // the first window that lies wholly after it
	PaidOff   bool              `json:"paid_off"`
	Confident float64           `json:"confidence"` // of the decision, in [0, 0.99]
}

// Figures are p95, RPS and error rate over a span.
type Figures struct {
	RPS       float64 `json:"rps"`
	P95MS     float64 `json:"p95_ms"`
	ErrorRate float64 `json:"error_rate"` // share in [0, 1]
}

// What counts as a difference; less is noise.
const (
	lessErrors  = 0.005 // half a percentage point
	lowerP95    = 0.10  // a tenth
	adoptedWith = 1.5   // windows after a reset within which a state is adopted without hysteresis
)

// Analyse finds the switches within a run's measured phase, oldest first, and what each brought.
//
// Only switches that a window led to count: those by a reload, a change of mode or a reset were ordered, and what is
// adopted in the first window after a reset was no choice between two algorithms. A switch with no whole window
// after it, because the run ended or another switch followed, has nothing to compare and is left out too.
func Analyse(r loadtest.Result, decisions []steering.Decision, snapshots []traffic.Snapshot) []Switch {
	decisions = slices.Clone(decisions)
	slices.SortStableFunc(decisions, func(a, b steering.Decision) int { return a.At.Compare(b.At) })
	snapshots = slices.Clone(snapshots)
	slices.SortStableFunc(snapshots, func(a, b traffic.Snapshot) int { return a.At.Compare(b.At) })
	var out []Switch
	var reset time.Time
	for i, d := range decisions {
		if d.Cause != steering.CauseWindow {
			reset = d.At
			continue
		}
		if !d.Switched || !chosen(d, reset) || !within(r, d.At) {
			continue
		}
		after, found := firstAfter(d, snapshots, nextChange(r, decisions[i+1:]))
		if found {
			out = append(out, switchOf(r, d, after))
		}
	}
	return out
}

// chosen is false for what was adopted right after a reset, a reload or a change of mode.
func chosen(d steering.Decision, reset time.Time) bool {
	return d.At.Sub(reset) > time.Duration(adoptedWith*float64(d.Snapshot.Window))
}

// within reports whether the measured phase holds the instant; the warm phase comes before it.
func within(r loadtest.Result, at time.Time) bool {
	return !at.Before(r.Started) && !at.After(r.Started.Add(r.Duration))
}

// nextChange is when another algorithm came in, or the run's end.
func nextChange(r loadtest.Result, later []steering.Decision) time.Time {
	for _, d := range later {
		if d.Switched || d.Cause != steering.CauseWindow {
			return d.At
		}
	}
	return r.Started.Add(r.Duration)
}

// firstAfter is the first window that began after the decision and ended before the next change.
func firstAfter(d steering.Decision, snapshots []traffic.Snapshot, until time.Time) (traffic.Snapshot, bool) {
	for _, s := range snapshots {
		if !s.At.Add(-s.Window).Before(d.At) && s.Requests > 0 {
			return s, !s.At.After(until)
		}
	}
	return traffic.Snapshot{}, false
}

func switchOf(r loadtest.Result, d steering.Decision, after traffic.Snapshot) Switch {
	s := Switch{
		Scenario: r.Scenario, AtS: d.At.Sub(r.Started).Seconds(), State: d.State,
		From: d.PreviousAlgorithm, To: d.Algorithm, Confident: d.Confidence,
		Before: figuresOf(d.Snapshot), After: figuresOf(after),
	}
	s.PaidOff = s.After.better(s.Before)
	return s
}

func figuresOf(s traffic.Snapshot) Figures {
	return Figures{RPS: s.RPS, P95MS: s.P95MS, ErrorRate: s.ErrorRate}
}

// better reports whether f beats the figures before it beyond noise: fewer errors, or as many and a lower p95.
func (f Figures) better(before Figures) bool {
	if math.Abs(f.ErrorRate-before.ErrorRate) > lessErrors {
		return f.ErrorRate < before.ErrorRate
	}
	return f.P95MS < before.P95MS*(1-lowerP95)
}
