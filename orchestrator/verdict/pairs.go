package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// scenarioPairs is one scenario's pairs, in the order in which they were measured.
type scenarioPairs struct {
	scenario string
	pairs    []Pair
}

// group sorts pairs by scenario, in the order in which scenarios first appear.
func group(pairs []Pair) []scenarioPairs {
	var out []scenarioPairs
	at := map[string]int{}
	for _, p := range pairs {
		i, seen := at[p.Scenario]
		if !seen {
			i = len(out)
			at[p.Scenario] = i
			out = append(out, scenarioPairs{scenario: p.Scenario})
		}
		out[i].pairs = append(out[i].pairs, p)
	}
	return out
}

func (g scenarioPairs) changes(m Metric) []float64 {
	out := make([]float64, len(g.pairs))
	for i, p := range g.pairs {
		out[i] = m.change(p)
	}
	return out
}

// byScenario orders findings as the groups are; within one they keep the order of metrics.
func byScenario(groups []scenarioPairs) func(a, b Finding) int {
	order := map[string]int{}
	for i, g := range groups {
		order[g.scenario] = i
	}
	return func(a, b Finding) int { return cmp.Compare(order[a.Scenario], order[b.Scenario]) }
}

func medianOf(pairs []Pair, of func(Pair) float64) float64 {
	x := make([]float64, len(pairs))
	for i, p := range pairs {
		x[i] = of(p)
	}
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// evenly is how many pairs every scenario has.
func evenly(groups []scenarioPairs) (int, error) {
	n := len(groups[0].pairs)
	for _, g := range groups {
		if len(g.pairs) != n {
			return 0, fmt.Errorf("%s has %d pairs and %s %d: every scenario needs as many", groups[0].scenario, n, g.scenario, len(g.pairs))
		}
	}
	return n, nil
}

// checkPairs refuses what is no evidence, and says all of it.
func checkPairs(pairs []Pair) error {
	if len(pairs) == 0 {
		return errors.New("no pairs")
	}
	var faults []error
	for i, p := range pairs {
		for _, arm := range []struct {
			name string
			m    Measurement
			fail bool // may have answered nothing without failure
		}{{"champion", p.Champion, false}, {"candidate", p.Candidate, true}} {
			if err := arm.m.check(arm.fail); err != nil {
				faults = append(faults, fmt.Errorf("pair %d, %s, %s: %w", i+1, p.Scenario, arm.name, err))
			}
		}
	}
	return errors.Join(faults...)
}

// check refuses a measurement that is none. mayFail allows an RPS of 0 when every request failed.
func (m Measurement) check(mayFail bool) error {
	switch {
	case m.Requests <= 0:
		return fmt.Errorf("%d requests", m.Requests)
	case !(m.ErrorRate >= 0 && m.ErrorRate <= 1):
		return fmt.Errorf("an error rate of %v, want a share in [0, 1]", m.ErrorRate)
	case !positive(m.P95MS):
		return fmt.Errorf("a p95 of %v ms: a run without one is no evidence", m.P95MS)
	case m.RPS == 0 && mayFail && m.ErrorRate == 1:
		return nil
	case !positive(m.RPS):
		return fmt.Errorf("an RPS of %v: a run without one is no evidence", m.RPS)
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
