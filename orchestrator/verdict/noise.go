package verdict

import (
	"fmt"
	"math"
	"slices"
)

func (n Noise) spread() spread {
	df := max(0, float64(n.Pairs-1))
	return spread{n.SD * n.SD * df, df}
}

// Scatter adds up what the halves of one scenario's pairs differ by beside the true difference of their arms. Make one to
// begin with. Only differences within pairs count: how far apart two pairs are is the machine's drift between them,
// which interleaving takes out of a verdict, and would drown the noise that is left in it.
type Scatter map[Metric]spread

// AddEqual takes pairs of equal arms, a calibration's: they differ by nothing but noise, so n of them have n degrees of
// freedom. Pairs that are no evidence are left out.
func (s Scatter) AddEqual(pairs ...Pair) {
	s.add(pairs, func(changes []float64) (sum spread) {
		for _, c := range changes {
			sum = sum.plus(spread{c * c, 1})
		}
		return sum
	})
}

// AddTrial takes the pairs of one cycle, whose arms differ by something unknown: only how they scatter about that counts.
func (s Scatter) AddTrial(pairs ...Pair) { s.add(pairs, spreadOf) }

func (s Scatter) add(pairs []Pair, of func(changes []float64) spread) {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return checkPairs([]Pair{p}) != nil })
	if len(pairs) == 0 {
		return
	}
	for _, m := range metrics {
		s[m] = s[m].plus(of(scenarioPairs{pairs: pairs}.changes(m)))
	}
}

// Noise is what has been added, as the judge takes it; nothing was added: none.
func (s Scatter) Noise(scenario string) (known []Noise) {
	for _, m := range metrics {
		if x := s[m]; x.df > 0 {
			known = append(known, Noise{Scenario: scenario, Metric: m, SD: math.Sqrt(x.variance()), Pairs: int(math.Round(x.df)) + 1})
		}
	}
	return known
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
	Smallest float64 `json:"smallest"` // the smallest effect that is mostly told from none: ratio - 1, or difference
	Needed   int     `json:"needed"`   // pairs after which a candidate that is just as good is mostly kept; 99: or more
}

// Resolve says what the judge can see with that noise and plan in all its scenarios together: mostly is in four cycles
// of five, each scenario holding as many more as that takes. The error rate's counts are not known beforehand, so its
// binomial floor is not in it.
func Resolve(known []Noise, limits Limits, looks []int) []Resolution {
	pairs := looks[len(looks)-1]
	last := tailsAt(looks, 1)[len(looks)-1]
	share := math.Pow(mostly, 1/float64(max(1, scenariosOf(known))))
	out, t := make([]Resolution, 0, len(known)), students{}
	for _, n := range known {
		m, df := n.Metric, n.spread().capped(maxKnown).df
		r := Resolution{Scenario: n.Scenario, Metric: m, SD: max(n.SD, m.floor()), Pairs: pairs}
		planned := estimate{sd: r.SD, df: df + float64(pairs-1), n: pairs, t: t}
		r.Smallest = math.Abs(m.effect(planned.margin(last.acquit, share)))
		r.Needed = 1
		for within := math.Abs(m.scaled(limits)); r.Needed < MostPairs; r.Needed++ {
			e := estimate{sd: r.SD, df: df + float64(r.Needed-1), n: r.Needed, t: t}
			if e.margin(last.acquit, share) <= within {
				break
			}
		}
		out = append(out, r)
	}
	return out
}

func scenariosOf(known []Noise) int {
	names := map[string]bool{}
	for _, n := range known {
		names[n.Scenario] = true
	}
	return len(names)
}
