package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Judge compares candidate and champion at one of the planned looks (ShouldLook): every scenario must have the same
// number of pairs, and it must be one of looks. Undecided asks for the pairs up to the next look; at the last it is
// Inconclusive, with MorePairs that would be expected to decide.
//
// An improvement in one scenario never hides a regression in another, and known noise that this cycle's scatter
// contradicts is raised to it with a warning. Input that is no evidence (no p95, NaN, negative figures, no requests,
// limits that are none) is an error and no verdict.
func Judge(pairs []Pair, limits Limits, known []Noise, looks []int) (Verdict, error) {
	if err := errors.Join(checkPairs(pairs), limits.Check(), checkNoise(known)); err != nil {
		return Verdict{}, fmt.Errorf("judging: %w", err)
	}
	groups := group(pairs)
	n, err := evenly(groups)
	if err != nil {
		return Verdict{}, fmt.Errorf("judging: %w", err)
	}
	look, err := lookOf(n, looks)
	if err != nil {
		return Verdict{}, fmt.Errorf("judging: %w", err)
	}
	v := Verdict{Pairs: n, Look: look + 1, Limits: limits}
	t := tailsAt(looks, len(groups))
	j := judge{limits: limits, known: known, now: t[look], last: t[len(t)-1], t: students{}}
	for _, m := range metrics {
		v.Findings = append(v.Findings, j.findings(m, groups)...)
	}
	slices.SortStableFunc(v.Findings, byScenario(groups))
	if len(j.unknown) > 0 {
		j.warn("this machine's noise of %s is not known yet, so more pairs are needed; `retune doctor --noise` measures it", strings.Join(j.unknown, ", "))
	}
	v.Warnings = j.warnings
	v.conclude(look == len(looks)-1)
	return v, nil
}

// SettleBreach is the absolute error-rate gate, the only one that may act on a single run: whether the error rate now
// is more than the limit over the baseline's. No data (NaN) is a breach.
func SettleBreach(baseline, now Measurement, limits Limits) bool {
	return !(now.ErrorRate-baseline.ErrorRate <= limits.ErrorIncrease+forgiven)
}

// judge holds what is the same for every finding of one look.
type judge struct {
	limits    Limits
	known     []Noise
	now, last tails // of this look, and of the last
	t         students
	warnings  []string
	unknown   []string // metrics whose noise is not known in every scenario
}

// findings judges one metric in every scenario.
func (j *judge) findings(m Metric, groups []scenarioPairs) []Finding {
	known := make([]spread, len(groups))
	var cycle, machine spread
	unknown := 0
	for i, g := range groups {
		cycle = cycle.plus(spreadOf(g.changes(m)))
		known[i] = knownOf(j.known, g.scenario, m).capped(maxKnown)
		machine = machine.plus(known[i])
		if known[i].df < 1 {
			unknown++
		}
	}
	if louder := cycle.beyond(machine, m); louder > 1 {
		for i := range known {
			known[i] = known[i].atLeast(m.floor()).times(louder).capped(cycle.df)
		}
		j.warn("%s scatters more in this cycle than this machine is known to (%.3f against %.3f): the known noise is taken to be as much larger in every scenario", m.words(), math.Sqrt(cycle.variance()), math.Sqrt(machine.variance()))
	} else if unknown > 0 {
		j.unknown = append(j.unknown, m.words())
	}
	out := make([]Finding, 0, len(groups))
	for i, g := range groups {
		own := spreadOf(g.changes(m))
		s := moderated(own, known[i], cycle.minus(own))
		out = append(out, j.finding(m, g, s))
	}
	return out
}

func (j *judge) warn(format string, args ...any) {
	j.warnings = append(j.warnings, fmt.Sprintf(format, args...))
}

// finding judges one metric in one scenario, from its pairs and their pooled spread.
func (j *judge) finding(m Metric, g scenarioPairs, s spread) Finding {
	e := estimateOf(m, g, s, j.t)
	low, high := e.interval(m, j.now)
	limit := m.scaled(j.limits)
	f := Finding{
		Scenario: g.scenario, HoldOut: g.pairs[0].HoldOut, Metric: m, Pairs: len(g.pairs), Limit: m.limit(j.limits),
		Champion:  medianOf(g.pairs, func(p Pair) float64 { return m.value(p.Champion) }),
		Candidate: medianOf(g.pairs, func(p Pair) float64 { return m.value(p.Candidate) }),
		Effect:    m.effect(e.mean), Low: m.effect(low), High: m.effect(high),
	}
	f.Outcome = outcomeOf(low, high, limit)
	if f.Outcome == Undecided {
		f.MorePairs = e.more(limit, j.last, mostly)
	}
	return f
}

// scaled is the limit on the scale on which changes are.
func (m Metric) scaled(l Limits) float64 {
	if m.ratio() {
		return math.Log1p(m.limit(l))
	}
	return m.limit(l)
}

// outcomeOf places an interval against a signed limit: negative limits bound a decrease.
func outcomeOf(low, high, limit float64) Outcome {
	if limit < 0 {
		low, high, limit = -high, -low, -limit
	}
	switch {
	case high <= limit+forgiven:
		return Kept
	case low > limit+forgiven:
		return RolledBack
	}
	return Undecided
}

// conclude draws the outcome of the whole from the findings, and says why.
func (v *Verdict) conclude(last bool) {
	worst := slices.MaxFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.past(), b.past()) })
	v.Outcome = Kept
	for _, f := range v.Findings {
		v.MorePairs = max(v.MorePairs, f.MorePairs)
		if f.Outcome == RolledBack || f.Outcome == Undecided && v.Outcome == Kept {
			v.Outcome = f.Outcome
		}
	}
	if v.Outcome == RolledBack {
		v.MorePairs = 0
	}
	if v.Outcome == Undecided && last {
		v.Outcome = Inconclusive
	}
	v.Reason = v.reason(worst)
}

// past orders findings by how bad they are: those that decided first, then by the interval's worse end, in limits.
func (f Finding) past() float64 {
	end := max(f.High/f.Limit, f.Low/f.Limit)
	switch f.Outcome {
	case RolledBack:
		return 2e9 + min(f.Effect/f.Limit, 1e6)
	case Undecided:
		return 1e9 + min(end, 1e6)
	}
	return end
}
