package verdict

import (
	"fmt"
	"math"
)

// maxRemembered bounds what stored noise counts for, so that old cycles fade as new ones come in.
const maxRemembered = 60

// Spread is how much the pairs scatter around their own mean, per scenario and metric: what an A/A calibration
// stores, and what the pairs of each later cycle add through Pool. A true difference between the arms moves the
// mean and so does not count as noise. Scenarios with fewer than two pairs are left out; the error is for a pair
// that is no evidence.
func Spread(pairs []Pair) ([]Noise, error) {
	if err := checkPairs(pairs); err != nil {
		return nil, err
	}
	var out []Noise
	for _, g := range group(pairs) {
		if len(g.pairs) < 2 {
			continue
		}
		for _, m := range metrics {
			s := spreadOf(g.changes(m))
			out = append(out, Noise{Scenario: g.scenario, Metric: m, SD: math.Sqrt(s.variance()), Pairs: len(g.pairs)})
		}
	}
	return out, nil
}

// Pool joins what is known with what was measured now, weighted by degrees of freedom. What it returns counts for at
// most 61 pairs each.
func Pool(known, now []Noise) []Noise {
	var out []Noise
	at := map[[2]string]int{}
	for _, n := range append(append([]Noise{}, known...), now...) {
		key := [2]string{n.Scenario, string(n.Metric)}
		i, seen := at[key]
		if !seen {
			at[key] = len(out)
			out = append(out, n)
			continue
		}
		out[i] = n.joined(out[i])
	}
	return out
}

// joined pools two noises of one scenario and metric; old gives way when there would be too much of it.
func (n Noise) joined(old Noise) Noise {
	now := n.spread()
	sum := now.plus(old.spread().capped(max(0, maxRemembered-now.df)))
	return Noise{Scenario: n.Scenario, Metric: n.Metric, SD: math.Sqrt(sum.variance()), Pairs: int(sum.df) + 1}
}

func (n Noise) spread() spread {
	df := max(0, float64(n.Pairs-1))
	return spread{n.SD * n.SD * df, df}
}

func checkNoise(known []Noise) error {
	for _, n := range known {
		if !(n.SD >= 0) || math.IsInf(n.SD, 0) || n.Pairs < 0 {
			return fmt.Errorf("known noise of %s in %s: a standard deviation of %v from %d pairs is none", n.Metric, n.Scenario, n.SD, n.Pairs)
		}
	}
	return nil
}

// knownOf sums what is known of one scenario and metric.
func knownOf(known []Noise, scenario string, m Metric) spread {
	var s spread
	for _, n := range known {
		if n.Scenario == scenario && n.Metric == m {
			s = s.plus(n.spread())
		}
	}
	return s
}

// Resolution is what a machine's noise lets the judge see of one metric in one scenario, at the plan's last look.
type Resolution struct {
	Scenario string  `json:"scenario"`
	Metric   Metric  `json:"metric"`
	SD       float64 `json:"sd"`       // of a pair's change
	Pairs    int     `json:"pairs"`    // planned, at the last look
	Smallest float64 `json:"smallest"` // the smallest effect that can be told from none: ratio - 1, or difference
	Needed   int     `json:"needed"`   // pairs after which a candidate that is just as good would be kept; 99: or more
}

// Resolve says what the judge can see with that noise and plan, as if one scenario were judged. The error rate's
// counts are not known beforehand, so its binomial floor is not in it.
func Resolve(known []Noise, limits Limits, looks []int) []Resolution {
	pairs := looks[len(looks)-1]
	last := tailsAt(looks, 1)[len(looks)-1]
	out, t := make([]Resolution, 0, len(known)), students{}
	for _, n := range known {
		m, df := n.Metric, n.spread().capped(maxKnown).df
		r := Resolution{Scenario: n.Scenario, Metric: m, SD: max(n.SD, m.floor()), Pairs: pairs}
		planned := estimate{sd: r.SD, df: df + float64(pairs-1), n: pairs, t: t}
		r.Smallest = math.Abs(m.effect(planned.reach(last.acquit)))
		one := estimate{sd: r.SD, df: df, n: 1, t: t}
		r.Needed = 1 + one.more(m.scaled(limits), last)
		out = append(out, r)
	}
	return out
}
