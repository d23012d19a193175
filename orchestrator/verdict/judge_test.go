package verdict

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
)

var (
	looks = []int{3, 5, 8}
	calm  = Measurement{Requests: 2000, RPS: 100, P95MS: 400, ErrorRate: 0.001}
)

// pairsOf makes n pairs of a scenario, each candidate shaped by change.
func pairsOf(scenario string, n int, change func(i int, m *Measurement)) []Pair {
	var out []Pair
	for i := range n {
		a, b := calm, calm
		a.P95MS *= 1 + 0.01*float64(i%3)
		b.P95MS *= 1 + 0.01*float64((i+1)%3)
		change(i, &b)
		out = append(out, Pair{Scenario: scenario, Champion: a, Candidate: b})
	}
	return out
}

func quiet(scenarios ...string) []Noise {
	var out []Noise
	for _, s := range scenarios {
		out = append(out, Noise{s, P95, 0.03, 20}, Noise{s, RPS, 0.003, 20}, Noise{s, ErrorRate, 0.001, 20})
	}
	return out
}

func judged(t *testing.T, pairs []Pair, known []Noise) Verdict {
	t.Helper()
	v, err := Judge(pairs, DefaultLimits(), known, looks)
	require.NoError(t, err)
	return v
}

func TestAnImprovementInOneScenarioDoesNotHideARegressionInAnother(t *testing.T) {
	better := pairsOf("steady", 3, func(_ int, m *Measurement) { m.P95MS *= 0.5 })
	worse := pairsOf("burst", 3, func(_ int, m *Measurement) { m.P95MS *= 1.59 })
	v := judged(t, append(better, worse...), quiet("steady", "burst"))
	require.Equal(t, RolledBack, v.Outcome)
	require.Regexp(t, `^rolled back: p95 in burst 404 ms → 642 ms, \+59% \[\+\d+%, \+\d+%\], limit \+15%, 3 pairs$`, v.Reason)
	require.Empty(t, v.Warnings)
	require.Equal(t, 1, v.Look)
	require.Len(t, v.Findings, 6)
	require.Equal(t, "steady", v.Findings[0].Scenario)
}

func TestEachMetricCanCondemn(t *testing.T) {
	for name, change := range map[string]func(int, *Measurement){
		"p95 in burst":        func(_ int, m *Measurement) { m.P95MS *= 1.5 },
		"RPS in burst":        func(_ int, m *Measurement) { m.RPS *= 0.7 },
		"error rate in burst": func(_ int, m *Measurement) { m.ErrorRate += 0.05 },
		// nothing but errors: an RPS of 0 leads to a verdict, it is no missing figure
		"error rate in burst 0.10% → 100.00%": func(_ int, m *Measurement) { m.RPS, m.ErrorRate = 0, 1 },
	} {
		v := judged(t, pairsOf("burst", 5, change), quiet("burst"))
		require.Equal(t, RolledBack, v.Outcome, name)
		require.Contains(t, v.Reason, "rolled back: "+name)
	}
}

func TestEqualArmsAreKept(t *testing.T) {
	v := judged(t, pairsOf("steady", 5, func(int, *Measurement) {}), quiet("steady"))
	require.Equal(t, Kept, v.Outcome, v.Reason)
	require.Contains(t, v.Reason, "kept: every metric of every scenario is within its limit; nearest to it: ")
	for _, f := range v.Findings {
		require.Less(t, f.Low, f.Effect)
		require.Less(t, f.Effect, f.High)
		require.Equal(t, Kept, f.Outcome)
		require.Zero(t, f.MorePairs)
	}
}

func TestWhatCannotBeToldIsUndecidedAndThenInconclusive(t *testing.T) {
	near := func(i int, m *Measurement) { m.P95MS *= 1.13 + 0.04*float64(i%2) }
	v := judged(t, pairsOf("burst", 5, near), quiet("burst"))
	require.Equal(t, Undecided, v.Outcome)
	require.Equal(t, 2, v.Look)
	v = judged(t, pairsOf("burst", 8, near), quiet("burst"))
	require.Equal(t, Inconclusive, v.Outcome)
	require.Equal(t, 3, v.Look)
	require.Positive(t, v.MorePairs)
	require.Contains(t, v.Reason, "more pairs would decide")
}

// The promise behind MorePairs: with that many more of the same, and a new plan, it is decided.
func TestMorePairsDecide(t *testing.T) {
	near := func(i int, m *Measurement) { m.P95MS *= 1.05 + 0.12*float64(i%2) }
	v := judged(t, pairsOf("burst", 8, near), quiet("burst"))
	require.Equal(t, Inconclusive, v.Outcome, v.Reason)
	n := v.Pairs + v.MorePairs
	again, err := Judge(pairsOf("burst", n, near), DefaultLimits(), quiet("burst"), []int{3, 5, n})
	require.NoError(t, err)
	require.Equal(t, Kept, again.Outcome, again.Reason)
}

func TestTheExactBoundaryIsNotDegraded(t *testing.T) {
	rps := math.Log(850.0 / 1000)
	p95 := math.Log(460.0 / 400)
	require.NotEqual(t, RolledBack, outcomeOf(rps, rps, RPS.scaled(DefaultLimits())))
	require.NotEqual(t, RolledBack, outcomeOf(p95, p95, P95.scaled(DefaultLimits())))
	require.Equal(t, RolledBack, outcomeOf(math.Log(0.8499), math.Log(0.8499), RPS.scaled(DefaultLimits())))
	require.Equal(t, RolledBack, outcomeOf(math.Log(1.1501), math.Log(1.1501), P95.scaled(DefaultLimits())))

	at := pairsOf("steady", 8, func(_ int, m *Measurement) { m.RPS *= 0.85 })
	require.Equal(t, Inconclusive, judged(t, at, quiet("steady")).Outcome)
}

func TestSettleBreach(t *testing.T) {
	for _, c := range []struct {
		before, now float64
		want        bool
	}{{0, 0.02, false}, {0.01, 0.03, false}, {0.1, 0.12, false}, {0, 0.0201, true}, {0.5, 0.1, false}, {0, math.NaN(), true}, {math.NaN(), 0, true}} {
		got := SettleBreach(Measurement{ErrorRate: c.before}, Measurement{ErrorRate: c.now}, DefaultLimits())
		require.Equal(t, c.want, got, "%v to %v", c.before, c.now)
	}
}

// Three pairs without an error among 100 requests each do not prove a difference of exactly 0.
func TestErrorRatesNeverGetAnIntervalOfNoWidth(t *testing.T) {
	few := pairsOf("steady", 3, func(_ int, m *Measurement) { m.ErrorRate = 0 })
	for i := range few {
		few[i].Champion.ErrorRate = 0
		few[i].Champion.Requests, few[i].Candidate.Requests = 100, 100
	}
	f := judged(t, few, quiet("steady")).Findings[2]
	require.Zero(t, f.Effect)
	require.Greater(t, f.High-f.Low, 0.01)
}

func TestEqualRPSNeverGetsAnIntervalOfNoWidth(t *testing.T) {
	f := judged(t, pairsOf("steady", 3, func(int, *Measurement) {}), quiet("steady")).Findings[1]
	require.Equal(t, RPS, f.Metric)
	require.Greater(t, f.High-f.Low, 0.02)
}

func TestAMachineWithoutKnownNoiseNeedsMorePairsAndSaysSo(t *testing.T) {
	pairs := pairsOf("steady", 3, func(int, *Measurement) {})
	known, unknown := judged(t, pairs, quiet("steady")), judged(t, pairs, nil)
	require.Empty(t, known.Warnings)
	require.Len(t, unknown.Warnings, 1)
	require.Contains(t, unknown.Warnings[0], "this machine's noise of p95, RPS, error rate is not known yet")
	width := func(v Verdict) float64 { return v.Findings[0].High - v.Findings[0].Low }
	require.Greater(t, width(unknown), width(known))
}

func TestKnownNoiseThatThisCycleContradictsIsRaisedToIt(t *testing.T) {
	wild := pairsOf("steady", 5, func(i int, m *Measurement) { m.P95MS *= []float64{0.6, 1.6, 0.7, 1.5, 1}[i] })
	v := judged(t, wild, quiet("steady"))
	require.Contains(t, strings.Join(v.Warnings, "\n"), "p95 scatters more in this cycle than this machine is known to")
	require.Equal(t, Undecided, v.Outcome)
}

// A machine on which nothing ever failed knows an error rate's noise of exactly 0, which no factor raises.
func TestNoiseThatWasNeverSeenIsRaisedToo(t *testing.T) {
	var pairs []Pair
	var known []Noise
	for _, s := range []string{"steady", "burst", "gradual", "failure"} {
		known = append(known, Noise{s, P95, 0.03, 31}, Noise{s, RPS, 0.003, 31}, Noise{s, ErrorRate, 0, 31})
		for i, p := range pairsOf(s, 8, func(int, *Measurement) {}) {
			p.Champion.ErrorRate, p.Candidate.ErrorRate = 0, 0
			if i == 2 || i == 5 { // bad in one run of four
				p.Candidate.ErrorRate = 0.048
			}
			pairs = append(pairs, p)
		}
	}
	v := judged(t, pairs, known)
	require.Contains(t, strings.Join(v.Warnings, "\n"), "error rate scatters more in this cycle than this machine is known to")
	require.Equal(t, Inconclusive, v.Outcome, v.Reason)
}

// Pairs that happen to look alike say little about a scenario that is known to be noisy, and no more because another
// scenario is noisier than it was known to be.
func TestNoiseInOneScenarioMakesNoOtherLookQuiet(t *testing.T) {
	known := []Noise{{"wild", P95, 0.9, 30}, {"a", P95, 0.01, 30}, {"b", P95, 0.01, 30}, {"calm", P95, 0.01, 30}}
	alike := pairsOf("wild", 8, func(_ int, m *Measurement) { m.P95MS *= 2 })
	for _, s := range []string{"a", "b"} {
		alike = append(alike, pairsOf(s, 8, func(int, *Measurement) {})...)
	}
	for name, noise := range map[string]float64{"as it is known": 1, "noisier": 3.5} {
		calm := pairsOf("calm", 8, func(i int, m *Measurement) { m.P95MS *= []float64{noise, 1 / noise}[i%2] })
		f := judged(t, append(alike, calm...), known).Findings[0]
		require.Equal(t, "wild", f.Scenario)
		require.Equal(t, Undecided, f.Outcome, "%s: %s", name, f)
	}
}

func TestInputThatIsNoEvidenceIsAnErrorAndNoVerdict(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good := func() []Pair { return pairsOf("steady", 3, func(int, *Measurement) {}) }
	for want, spoil := range map[string]func(*Pair){
		"champion: a p95 of 0 ms: a run without one": func(p *Pair) { p.Champion.P95MS = 0 },
		"candidate: a p95 of NaN ms":                 func(p *Pair) { p.Candidate.P95MS = nan },
		"candidate: a p95 of +Inf ms":                func(p *Pair) { p.Candidate.P95MS = inf },
		"champion: an RPS of -1":                     func(p *Pair) { p.Champion.RPS = -1 },
		"candidate: an RPS of 0":                     func(p *Pair) { p.Candidate.RPS = 0 },
		"candidate: an error rate of 1.5":            func(p *Pair) { p.Candidate.ErrorRate = 1.5 },
		"champion: an error rate of NaN":             func(p *Pair) { p.Champion.ErrorRate = nan },
		"candidate: 0 requests":                      func(p *Pair) { p.Candidate.Requests = 0 },
		"steady has 2 pairs and other 1":             func(p *Pair) { p.Scenario = "other" },
	} {
		pairs := good()
		spoil(&pairs[2])
		v, err := Judge(pairs, DefaultLimits(), nil, looks)
		require.ErrorContains(t, err, want)
		require.Empty(t, cmp.Diff(Verdict{}, v))
	}
	for want, judge := range map[string]func() error{
		"no pairs": func() error { _, err := Judge(nil, DefaultLimits(), nil, looks); return err },
		"3 pairs per scenario is none of the planned looks [2 4]": func() error { _, err := Judge(good(), DefaultLimits(), nil, []int{2, 4}); return err },
		"must rise":                       func() error { _, err := Judge(good(), DefaultLimits(), nil, []int{5, 3}); return err },
		"p95_increase: 0 must be above 0": func() error { _, err := Judge(good(), Limits{}, nil, looks); return err },
		"a standard deviation of NaN":     func() error { _, err := Judge(good(), DefaultLimits(), []Noise{{"a", P95, nan, 3}}, looks); return err },
		"a standard deviation of -0.1": func() error {
			_, err := Judge(good(), DefaultLimits(), []Noise{{"a", P95, -0.1, 3}}, looks)
			return err
		},
	} {
		require.ErrorContains(t, judge(), want)
	}
}

func TestLooksSpendFivePercentInAll(t *testing.T) {
	for _, p := range []loadtest.Profile{loadtest.Quick, loadtest.Standard, loadtest.Nightly} {
		for _, scenarios := range []int{1, 2, 4, 9} {
			acquit, condemn := 0.0, 0.0
			for _, l := range tailsAt(ShouldLook(p), scenarios) {
				acquit += l.acquit
				condemn += l.condemn
			}
			require.InDelta(t, alpha/2, acquit, 1e-12)
			require.LessOrEqual(t, condemn*float64(scenarios), alpha+1e-12)
		}
	}
}

func TestLimitsAreCheckedFieldByField(t *testing.T) {
	require.NoError(t, DefaultLimits().Check())
	require.NoError(t, Limits{P95Increase: 3, RPSDecrease: 0.99, ErrorIncrease: 0.001}.Check())
	err := Limits{P95Increase: 0.2, RPSDecrease: 1}.Check()
	require.EqualError(t, err, "limit rps_decrease: 1 must be above 0 and below 1\nlimit error_increase: 0 must be above 0 and below 1")
	require.ErrorContains(t, Limits{math.NaN(), 0.1, 0.1}.Check(), "p95_increase: NaN")
	require.ErrorContains(t, Limits{math.Inf(1), 0.1, 0.1}.Check(), "p95_increase: +Inf")
}
