package advisor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

const (
	// beyondNoise is the least difference in p95 or RPS that counts, as a ratio: one run scatters by 5 to 8%.
	beyondNoise = 0.10
	// beyondErrors is the least difference in error rate that counts: half a percentage point.
	beyondErrors = 0.005
	// seen is the least share of windows in a state, summed over the scenarios, that says anything about it.
	seen = 0.02
)

// local asks no model. For each traffic state it takes the fixed algorithm that measured best, each scenario weighing as
// much as the share of windows that it spent in that state under the champion. The state's present algorithm is what it
// has to beat or, where that was not measured by itself, the champion's rules as a whole. Error rate goes first, then p95, then
// RPS; a gain within noise, a tie, or a state that was never seen keeps the champion's rule. Where every rule is kept, one
// threshold may change: the one that Detection's suggestions say most of.
type local struct{}

// Advise proposes a rule set; it equals the champion when nothing was better. It is an error when no algorithm was
// measured.
func (local) Advise(_ context.Context, e Evidence) (Advice, error) {
	if len(e.Algorithms) == 0 || len(e.Scenarios) == 0 {
		return Advice{}, fmt.Errorf("the local generator has no measurements to go by: it needs every scenario under the champion and under each fixed algorithm")
	}
	out := e.Champion
	out.Origin = rules.OriginLocal
	out.Rules = maps.Clone(e.Champion.Rules)
	a := Advice{Origin: rules.OriginLocal, Author: "local"}
	for _, s := range traffic.States() {
		rule, why := choose(e, s)
		out.Rules[s] = rule
		a.Reasons = append(a.Reasons, ruleversions.Reason{Path: "rules." + string(s), Text: why})
	}
	if len(Changes(e.Champion, out)) == 0 { // a threshold is tried by itself, or its verdict would be of the rules too
		if better, why, found := suggested(e); found {
			out.Detection = better.Detection
			a.Reasons = append(a.Reasons, why)
		}
	}
	out.Version, out.Parent = e.Champion.Version+1, e.Champion.Version
	checked, err := validated(out)
	if err != nil {
		return a, fmt.Errorf("the local generator's rules: %w", err)
	}
	a.Rules = checked
	a.Reasons = CheckReasons(a.Reasons, e, checked)
	a.Summary = summaryOf(Changes(e.Champion, checked))
	return a, nil
}

// Proposals is the one rule set that measurements speak for, however many are asked for.
func (l local) Proposals(ctx context.Context, e Evidence, n int) (Proposals, error) {
	a, err := l.Advise(ctx, e)
	if err != nil {
		return Proposals{}, err
	}
	p := Proposals{Advice: []Advice{a}}
	if n > 1 {
		p.Short = "the local generator has one answer to one evidence"
	}
	return p, nil
}

func summaryOf(changes []string) string {
	if len(changes) == 0 {
		return "No fixed algorithm beat the present rules beyond noise in any traffic state, and no threshold is better for certain."
	}
	return strings.Join(changes, "; ") + "."
}

// choose is the rule for one state, and why.
func choose(e Evidence, s traffic.State) (rules.Rule, string) {
	now := e.Champion.Rules[s]
	weights := weightsOf(e, s)
	if len(weights) == 0 {
		return now, fmt.Sprintf("%s is kept: no window of any scenario was in %s.", now.Algorithm, s)
	}
	top := heaviest(weights)
	against := now.Algorithm
	reference, measured := scoreOf(e, weights, against)
	if !measured { // then the champion's rules as a whole, in the same scenarios
		against = championRules
		if reference, measured = scoreOf(e, weights, against); !measured {
			return now, fmt.Sprintf("%s is kept: nothing was measured in %s that it could be compared with.", now.Algorithm, top)
		}
	}
	best, found := now.Algorithm, reference
	for _, a := range balance.Algorithms() {
		x, measured := scoreOf(e, weights, a)
		if a != now.Algorithm && measured && x.better(reference) && (best == now.Algorithm || x.over(found) > 0) {
			best, found = a, x
		}
	}
	if best == now.Algorithm {
		return now, fmt.Sprintf("%s is kept: no algorithm was better beyond noise; %s.", best, inWords(e, top, against))
	}
	why := fmt.Sprintf("%s in place of %s: %s, against %s; %s of the windows there were in %s.", best, now.Algorithm,
		inWords(e, top, best), inWords(e, top, against), percent(weights[top]), s)
	return rules.Rule{Algorithm: best, Reason: why}, why
}

// weightsOf is the share of windows that each scenario spent in a state; empty when the state was hardly seen.
func weightsOf(e Evidence, s traffic.State) map[string]float64 {
	weights, sum := map[string]float64{}, 0.0
	for _, m := range e.Scenarios {
		if share := m.States[s]; share > 0 && !math.IsInf(share, 0) {
			weights[m.Scenario] = share
			sum += share
		}
	}
	if sum < seen {
		return nil
	}
	return weights
}

func heaviest(weights map[string]float64) string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(weights)), func(a, b string) int { return cmp.Compare(weights[a], weights[b]) })
}

// score is how an algorithm did in the scenarios of a state, by their weights: the mean error rate, the geometric means
// of p95 and RPS.
type score struct{ errors, p95, rps float64 }

// scoreOf is false unless the algorithm was measured in every scenario that has a weight.
func scoreOf(e Evidence, weights map[string]float64, a balance.Algorithm) (score, bool) {
	var s score
	total := 0.0
	for _, scenario := range slices.Sorted(maps.Keys(weights)) {
		m, found := measuredOf(e, scenario, a)
		if !found || !(m.P95MS > 0) || !(m.RPS > 0) || math.IsNaN(m.ErrorRate) {
			return score{}, false
		}
		w := weights[scenario]
		total += w
		s.errors += w * m.ErrorRate
		s.p95 += w * math.Log(m.P95MS)
		s.rps += w * math.Log(m.RPS)
	}
	return score{s.errors / total, math.Exp(s.p95 / total), math.Exp(s.rps / total)}, true
}

// championRules stands for what is measured under the champion's rules instead of a fixed algorithm.
const championRules balance.Algorithm = ""

func measuredOf(e Evidence, scenario string, a balance.Algorithm) (Measured, bool) {
	from := e.Algorithms
	if a == championRules {
		from = e.Scenarios
	}
	for _, m := range from {
		if m.Scenario == scenario && m.Algorithm == a {
			return m, true
		}
	}
	return Measured{}, false
}

// better reports whether s beats the reference beyond noise: fewer errors; as many and a lower p95; both alike and more
// RPS.
func (s score) better(reference score) bool {
	switch {
	case math.Abs(s.errors-reference.errors) > beyondErrors:
		return s.errors < reference.errors
	case math.Abs(math.Log(s.p95/reference.p95)) > -math.Log1p(-beyondNoise):
		return s.p95 < reference.p95
	}
	return math.Log(s.rps/reference.rps) > math.Log1p(beyondNoise)
}

// over ranks two that are both better than the reference: fewer errors where that is more than noise, else the lower
// p95, else more RPS.
func (s score) over(t score) int {
	if math.Abs(s.errors-t.errors) > beyondErrors {
		return cmp.Compare(t.errors, s.errors)
	}
	return cmp.Or(cmp.Compare(t.p95, s.p95), cmp.Compare(s.rps, t.rps))
}

// inWords gives an algorithm's figures in a scenario.
func inWords(e Evidence, scenario string, a balance.Algorithm) string {
	m, _ := measuredOf(e, scenario, a)
	with := string(cmp.Or(a, "the champion's rules"))
	return fmt.Sprintf("p95 in %s %.0f ms, %.1f rps and %s errors with %s", scenario, m.P95MS, m.RPS, percent(m.ErrorRate), with)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", share*100) }
