package verdict

import (
	"fmt"
	"math"
)

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
