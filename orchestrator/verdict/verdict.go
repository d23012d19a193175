// Package verdict judges a candidate against a champion by interleaved pairs of runs.
//
// It is arithmetic alone: no clock, no I/O. Interval arithmetic is in interval.go, the plan of looks and what each
// look may spend in looks.go, the machine's known noise in noise.go, and the judgement in judge.go. A candidate is kept only when, for every metric of every scenario, the
// whole confidence interval lies within the limit, and rolled back when for any one the whole interval lies
// beyond it. Anything else is inconclusive: a candidate is never kept on hope.
package verdict

import (
	"errors"
	"fmt"
	"math"
)

// Outcome is what a judge says.
type Outcome string

// The outcomes; Undecided asks for more pairs, and Inconclusive is what remains of it after the last look.
const (
	Kept         Outcome = "kept"
	RolledBack   Outcome = "rolled_back"
	Inconclusive Outcome = "inconclusive"
	Undecided    Outcome = "undecided"
)

// Limits is how much worse a candidate may be, per scenario; the exact boundary is not worse.
type Limits struct {
	P95Increase   float64 `json:"p95_increase"`   // 0.15: 15% higher
	RPSDecrease   float64 `json:"rps_decrease"`   // 0.15: 15% lower
	ErrorIncrease float64 `json:"error_increase"` // 0.02: 2 percentage points more
}

// DefaultLimits are the mission's.
func DefaultLimits() Limits { return Limits{P95Increase: 0.15, RPSDecrease: 0.15, ErrorIncrease: 0.02} }

// Check names each limit that is none: p95 may rise by any share above 0, the other two by one between 0 and 1. Limits
// that are given in part are refused too: what is left out is 0.
func (l Limits) Check() error {
	var faults []error
	for _, f := range []struct {
		name         string
		limit, below float64
	}{{"p95_increase", l.P95Increase, math.Inf(1)}, {"rps_decrease", l.RPSDecrease, 1}, {"error_increase", l.ErrorIncrease, 1}} {
		if !(f.limit > 0 && f.limit < f.below) { // NaN too
			faults = append(faults, fmt.Errorf("limit %s: %v must be above 0 and below %v", f.name, f.limit, f.below))
		}
	}
	return errors.Join(faults...)
}

// Measurement is one valid run's figures.
type Measurement struct {
	Requests  int64   `json:"requests"`
	RPS       float64 `json:"rps"`
	P95MS     float64 `json:"p95_ms"`
	ErrorRate float64 `json:"error_rate"`
}

// Pair is two runs of one scenario, one right after the other, under the same load.
type Pair struct {
	Scenario  string      `json:"scenario"`
	HoldOut   bool        `json:"hold_out,omitempty"` // the scenario is held out: judged, but never shown to a generator
	Champion  Measurement `json:"champion"`
	Candidate Measurement `json:"candidate"`
}

// Metric is what is judged.
type Metric string

// The judged metrics: ratios candidate / champion for p95 and RPS, a difference for the error rate.
const (
	P95       Metric = "p95"
	RPS       Metric = "rps"
	ErrorRate Metric = "error_rate"
)

// Noise is how much pairs of equal arms are known to scatter on this machine, under this profile and driver.
type Noise struct {
	Scenario string  `json:"scenario"`
	Metric   Metric  `json:"metric"`
	SD       float64 `json:"sd"`    // of the natural log of the ratio, or of the difference
	Pairs    int     `json:"pairs"` // that SD was measured from, or as many as tell as much: SD's degrees of freedom and one
}

// Finding is one metric of one scenario.
type Finding struct {
	Scenario  string  `json:"scenario"`
	HoldOut   bool    `json:"hold_out,omitempty"` // see Pair
	Metric    Metric  `json:"metric"`
	Champion  float64 `json:"champion"`  // median over the pairs
	Candidate float64 `json:"candidate"` // median over the pairs
	Effect    float64 `json:"effect"`    // ratio - 1, or difference; positive is an increase
	Low       float64 `json:"low"`       // 95% confidence interval of Effect, over all looks together (see looks.go)
	High      float64 `json:"high"`
	Limit     float64 `json:"limit"` // signed: +0.15 for p95, -0.15 for RPS, +0.02 for the error rate
	Outcome   Outcome `json:"outcome"`
	Pairs     int     `json:"pairs"`
	// MorePairs is how many pairs more would decide in four cycles of five; 0 when decided.
	MorePairs int `json:"more_pairs,omitempty"`
}

// Verdict is the outcome with the figures it rests on.
type Verdict struct {
	Outcome   Outcome   `json:"outcome"`
	Reason    string    `json:"reason"` // one sentence with the figures that decided
	Findings  []Finding `json:"findings"`
	Pairs     int       `json:"pairs"` // per scenario
	Look      int       `json:"look"`  // 1-based
	MorePairs int       `json:"more_pairs,omitempty"`
	Limits    Limits    `json:"limits"`
	Warnings  []string  `json:"warnings,omitempty"` // e.g. no known noise on this machine
}
