// Package switchlog says what each switch of algorithm brought: p95, RPS and errors before it and after it, and
// whether it paid.
//
// It is pure: decisions in, each with its window, and switches with figures out. A switch is set against noise: before and
// after are windows of the same proxy and load, between which nothing but the algorithm changed, and a difference counts
// when it is larger than what neighbouring windows of the same scenario's runs differ by without a switch. Where that can't
// be had, because the load changed too, or the run's edge or another change is too near, it says so: unclear.
package switchlog

import (
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
	Confident float64           `json:"confidence"` // of the decision, in [0, 0.99]
	// Before and After are of the windows that were compared; where none could be, of the nearest whole window, and
	// zero where there is none.
	Before  Figures `json:"before"`
	After   Figures `json:"after"`
	Windows int     `json:"windows"` // how many were compared on either side, 0..3
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why"` // one sentence with the figures that decided, or what is missing
}

// Outcome says whether a switch paid.
type Outcome string

// The outcomes of a switch: better or worse than without it beyond noise, or neither can be said.
const (
	Paid    Outcome = "paid"
	Cost    Outcome = "cost"
	Unclear Outcome = "unclear"
)

// Figures are what one to three windows measured.
type Figures struct {
	Offered   float64 `json:"offered_rps"` // that the load driver sent
	RPS       float64 `json:"rps"`         // that the proxy answered; where there are several, its share of the load
	P95MS     float64 `json:"p95_ms"`      // of the window with the median p95, never an average
	ErrorRate float64 `json:"error_rate"`  // share in [0, 1]
}

// adoptedWith is how many windows after a reset a state is adopted without hysteresis.
const adoptedWith = 1.5

// Analyse finds the switches within each run's measured phase, oldest first, and what each brought; noise is taken from all
// of the runs. decisions are all of the proxies', those that hold too: with them come the windows.
//
// Only switches that a window led to count: those by a reload, a change of mode or a reset were ordered, and what is
// adopted in the first window after a reset was no choice between two algorithms.
func Analyse(runs []loadtest.Result, decisions []steering.Decision) [][]Switch {
	decisions = slices.Clone(decisions)
	slices.SortStableFunc(decisions, func(a, b steering.Decision) int { return a.At.Compare(b.At) })
	all, known := make([]analysis, len(runs)), noises{}
	for i, r := range runs {
		all[i] = newAnalysis(r, decisions)
		known.learn(all[i])
	}
	out := make([][]Switch, len(runs))
	for i, a := range all {
		out[i] = a.switches(decisions, known)
	}
	return out
}

// switches judges those of one run.
func (a analysis) switches(decisions []steering.Decision, known noises) (out []Switch) {
	reset := map[string]time.Time{} // by the proxy's boot
	for _, d := range decisions {
		if d.Cause != steering.CauseWindow {
			reset[d.BootID] = d.At
			continue
		}
		if d.Switched && chosen(d, reset[d.BootID]) && within(a.run, d.At) {
			out = append(out, a.judge(d, known.of(kind{a.run.Scenario, d.Snapshot.Window})))
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
