package verdict

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawn is a cycle at one of its looks, with or without known noise.
type drawn struct {
	pairs []Pair
	known []Noise
}

// drawCycle draws a cycle of one to four scenarios, from alike to hopelessly noisy.
func drawCycle(t *rapid.T) (d drawn) {
	scenarios := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "scenarios")]
	n := rapid.SampledFrom(looks).Draw(t, "pairs")
	for _, s := range scenarios {
		shift := rapid.Float64Range(-0.5, 0.5).Draw(t, "shift")
		sd := rapid.SampledFrom([]float64{0, 0.01, 0.05, 0.15, 0.5}).Draw(t, "sd")
		for range n {
			d.pairs = append(d.pairs, Pair{Scenario: s, Champion: drawRun(t, 0, sd), Candidate: drawRun(t, shift, sd)})
		}
		if rapid.Bool().Draw(t, "known") {
			for _, m := range metrics {
				d.known = append(d.known, Noise{s, m, rapid.Float64Range(0, 0.3).Draw(t, "known sd"), rapid.IntRange(0, 60).Draw(t, "known pairs")})
			}
		}
	}
	return d
}

func drawRun(t *rapid.T, shift, sd float64) Measurement {
	noise := rapid.Float64Range(-2, 2)
	return Measurement{
		Requests:  rapid.Int64Range(100, 100_000).Draw(t, "requests"),
		P95MS:     400 * math.Exp(shift+sd*noise.Draw(t, "p95")),
		RPS:       80 * math.Exp(sd/4*noise.Draw(t, "rps")-max(0, shift)/4),
		ErrorRate: rapid.SampledFrom([]float64{0, 0, 0.001, 0.01, 0.03, 0.5}).Draw(t, "errors"),
	}
}

func (d drawn) verdict(t *rapid.T) Verdict {
	v, err := Judge(d.pairs, DefaultLimits(), d.known, looks)
	require.NoError(t, err)
	return v
}

// changed is the cycle with every pair changed.
func (d drawn) changed(change func(p *Pair)) drawn {
	d.pairs = slices.Clone(d.pairs)
	for i := range d.pairs {
		change(&d.pairs[i])
	}
	return d
}

// find is the finding of a metric in a scenario.
func (v Verdict) find(scenario string, m Metric) Finding {
	i := slices.IndexFunc(v.Findings, func(f Finding) bool { return f.Scenario == scenario && f.Metric == m })
	return v.Findings[i]
}

// sameFindings holds two verdicts to the same effects, intervals and outcomes, in whatever order.
func sameFindings(t *rapid.T, want, got Verdict) {
	require.Equal(t, want.Outcome, got.Outcome)
	require.Len(t, got.Findings, len(want.Findings))
	for _, w := range want.Findings {
		g := got.find(w.Scenario, w.Metric)
		require.Equal(t, w.Outcome, g.Outcome)
		for _, x := range [][2]float64{{w.Effect, g.Effect}, {w.Low, g.Low}, {w.High, g.High}} {
			require.InDelta(t, x[0], x[1], 1e-9*(1+math.Abs(x[0])))
		}
	}
}

func TestTheOrderOfPairsAndScenariosDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		shuffled := drawn{rapid.Permutation(d.pairs).Draw(t, "order"), rapid.Permutation(d.known).Draw(t, "known order")}
		sameFindings(t, d.verdict(t), shuffled.verdict(t))
	})
}

func TestTheUnitOfAMetricDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		by := math.Exp(rapid.Float64Range(-9, 9).Draw(t, "by"))
		sameFindings(t, d.verdict(t), d.changed(func(p *Pair) { p.Champion.P95MS *= by; p.Candidate.P95MS *= by }).verdict(t))
		sameFindings(t, d.verdict(t), d.changed(func(p *Pair) { p.Champion.RPS *= by; p.Candidate.RPS *= by }).verdict(t))
	})
}

// A candidate that is better by the same factor in every pair never fares worse.
func TestABetterCandidateNeverFaresWorse(t *testing.T) {
	rank := map[Outcome]int{RolledBack: 0, Undecided: 1, Inconclusive: 1, Kept: 2}
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		by := rapid.Float64Range(0.3, 1).Draw(t, "by")
		better := d.changed(func(p *Pair) { p.Candidate.P95MS *= by; p.Candidate.RPS /= by })
		require.GreaterOrEqual(t, rank[better.verdict(t).Outcome], rank[d.verdict(t).Outcome])
	})
}

// Noise never decides: with the same means and more scatter around them, a verdict stays as it is or becomes none.
func TestMoreNoiseNeverDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		by := rapid.Float64Range(1, 5).Draw(t, "by")
		mean := map[string][2]float64{}
		for _, g := range group(d.pairs) {
			mean[g.scenario] = [2]float64{meanOf(g.changes(P95)), meanOf(g.changes(RPS))}
		}
		noisier := d.changed(func(p *Pair) {
			m := mean[p.Scenario]
			p.Candidate.P95MS = p.Champion.P95MS * math.Exp(m[0]+by*(P95.change(*p)-m[0]))
			p.Candidate.RPS = p.Champion.RPS * math.Exp(m[1]+by*(RPS.change(*p)-m[1]))
		})
		before, after := d.verdict(t), noisier.verdict(t)
		for _, f := range before.Findings {
			g := after.find(f.Scenario, f.Metric)
			if g.Outcome != Undecided {
				require.Equal(t, f.Outcome, g.Outcome, "%s, then %s", f, g)
			}
		}
	})
}

// The champion in the candidate's place sees the candidate as the candidate saw it, and two arms are never both too much
// worse than each other.
func TestSwappingTheArmsMirrorsTheVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		v := d.verdict(t)
		w := d.changed(func(p *Pair) { p.Champion, p.Candidate = p.Candidate, p.Champion }).verdict(t)
		alike := len(group(d.pairs)) <= 2 // with more scenarios the end that condemns lies further out
		for _, f := range v.Findings {
			g := w.find(f.Scenario, f.Metric)
			mirror := func(x float64) float64 { return -x }
			if f.Metric.ratio() {
				mirror = func(x float64) float64 { return 1/(1+x) - 1 }
			}
			near := func(want, got float64) { require.InDelta(t, want, got, 1e-9*(1+math.Abs(want))) }
			near(mirror(f.Effect), g.Effect)
			near(f.Champion, g.Candidate)
			near(f.Candidate, g.Champion)
			if alike {
				near(mirror(f.Low), g.High)
				near(mirror(f.High), g.Low)
			}
			if f.Outcome == RolledBack {
				require.Equal(t, Kept, g.Outcome, "%s, then %s", f, g)
			}
		}
	})
}

func TestAFindingsIntervalHoldsItsEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawCycle(t).verdict(t)
		outcomes := map[Outcome]bool{}
		for _, f := range v.Findings {
			require.Less(t, f.Low, f.Effect)
			require.Less(t, f.Effect, f.High)
			require.Equal(t, f.Outcome == Undecided, f.MorePairs > 0)
			outcomes[f.Outcome] = true
		}
		require.Equal(t, outcomes[RolledBack], v.Outcome == RolledBack)
		require.Equal(t, len(outcomes) == 1 && outcomes[Kept], v.Outcome == Kept)
	})
}

// However often, and however alike the pairs are: a candidate exactly at a limit is not degraded.
func TestExactlyAtTheLimitIsNeverDegraded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom(looks).Draw(t, "pairs")
		l := Limits{
			P95Increase:   rapid.Float64Range(0.01, 2).Draw(t, "p95"),
			RPSDecrease:   rapid.Float64Range(0.01, 0.9).Draw(t, "rps"),
			ErrorIncrease: rapid.Float64Range(0.001, 0.5).Draw(t, "errors"),
		}
		var pairs []Pair
		for range n {
			a := Measurement{Requests: 1_000_000_000, P95MS: rapid.Float64Range(0.1, 1e4).Draw(t, "p95"), RPS: rapid.Float64Range(1, 1e5).Draw(t, "rps")}
			b := a
			b.P95MS, b.RPS, b.ErrorRate = a.P95MS*(1+l.P95Increase), a.RPS*(1-l.RPSDecrease), a.ErrorRate+l.ErrorIncrease
			pairs = append(pairs, Pair{Scenario: "s", Champion: a, Candidate: b})
			for _, m := range metrics {
				c := m.change(pairs[len(pairs)-1])
				require.NotEqual(t, RolledBack, outcomeOf(c, c, m.scaled(l)))
			}
			require.False(t, SettleBreach(a, b, l))
		}
		v, err := Judge(pairs, l, nil, looks)
		require.NoError(t, err)
		require.NotEqual(t, RolledBack, v.Outcome)
	})
}

func TestWhatIsNoFigureNeverGetsAVerdict(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	bad := map[string][]float64{"p95": {0, -1, nan, inf, -inf}, "rps": {-1, nan, inf, -inf}, "errors": {-0.1, 1.1, nan, inf, -inf}, "requests": {0, -1}}
	rapid.Check(t, func(t *rapid.T) {
		d := drawCycle(t)
		at := rapid.IntRange(0, len(d.pairs)-1).Draw(t, "at")
		half := &d.pairs[at].Champion
		if rapid.Bool().Draw(t, "candidate") {
			half = &d.pairs[at].Candidate
		}
		what := rapid.SampledFrom([]string{"p95", "rps", "errors", "requests"}).Draw(t, "what")
		x := rapid.SampledFrom(bad[what]).Draw(t, "bad")
		switch what {
		case "p95":
			half.P95MS = x
		case "rps":
			half.RPS = x
		case "errors":
			half.ErrorRate = x
		case "requests":
			half.Requests = int64(x)
		}
		v, err := Judge(d.pairs, DefaultLimits(), d.known, looks)
		require.Error(t, err)
		require.Equal(t, Verdict{}, v)
	})
}
