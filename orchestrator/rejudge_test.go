package orchestrator_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
)

// judgedCycle is a cycle of two scenarios taken to its verdict under virtual time, with its runs as they were stored.
func judgedCycle(t *testing.T, candidateP95 float64) (c orchestrator.Cycle, runs []orchestrator.Run) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 100, 2: candidateP95}
		var err error
		c, err = run(t, b, t.Context())
		require.NoError(t, err)
		runs = b.ledger.runs
	})
	for i := range runs {
		runs[i].ID = int64(i + 1)
	}
	return c, runs
}

func limitsOf(t *testing.T, p95, rps, errors string) verdict.Limits {
	t.Helper()
	l, err := verdict.DefaultLimits().With(p95, rps, errors)
	require.NoError(t, err)
	return l
}

func TestUnderItsOwnLimitsACycleIsJudgedAsItWas(t *testing.T) {
	for _, p95 := range []float64{60, 100, 112, 250} {
		c, runs := judgedCycle(t, p95)
		r, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, c.Limits)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(*c.Verdict, r.Verdict), "candidate at %v ms", p95)
		require.True(t, r.Confirmed)
		require.Contains(t, r.Origin(), "comes out again")
	}
}

func TestOtherLimitsGiveAnotherVerdictAndLeaveTheCycleAlone(t *testing.T) {
	c, runs := judgedCycle(t, 140)
	require.Equal(t, orchestrator.RolledBack, c.Status)
	before := *c.Verdict
	before.Findings = slices.Clone(before.Findings)
	r, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, limitsOf(t, "80%", "", ""))
	require.NoError(t, err)
	require.Equal(t, verdict.Kept, r.Verdict.Outcome, r.Verdict.Reason)
	require.Equal(t, 0.8, r.Verdict.Limits.P95Increase)
	require.Equal(t, 0.15, r.Verdict.Limits.RPSDecrease, "what is not given is the cycle's own")
	require.Equal(t, orchestrator.RolledBack, r.Status)
	require.True(t, r.Confirmed)
	require.Empty(t, cmp.Diff(before, *c.Verdict))
	require.Regexp(t, `^at look \d of 3, after \d pairs$`, r.Ending())
}

// A cycle that decided early may not have the pairs that other limits would have asked for.
func TestPairsThatEndTooSoonAreUndecided(t *testing.T) {
	c, runs := judgedCycle(t, 140)
	require.Equal(t, 1, c.Verdict.Look, "the case needs a cycle that ended at its first look")
	r, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, limitsOf(t, "41%", "", ""))
	require.NoError(t, err)
	require.Equal(t, verdict.Undecided, r.Verdict.Outcome)
	require.Contains(t, r.Ending(), "would have gone on to 5")
}

func TestALaterLookIsNotUsedWhenAnEarlierOneDecides(t *testing.T) {
	c, runs := judgedCycle(t, 112) // near its limit of 15%: it takes more than one look
	require.Greater(t, c.Verdict.Look, 1, c.Why)
	r, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, limitsOf(t, "60%", "", ""))
	require.NoError(t, err)
	require.Equal(t, 1, r.Verdict.Look)
	require.Equal(t, r.Looks[0], r.Verdict.Pairs)
	require.Greater(t, r.Pairs, r.Verdict.Pairs)
}

func TestOnlyCompleteValidPairsOfTheCandidateAreJudged(t *testing.T) {
	c, runs := judgedCycle(t, 100)
	want, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, c.Limits)
	require.NoError(t, err)
	add := func(r orchestrator.Run, at int, change func(*orchestrator.Run)) {
		change(&r)
		runs = slices.Insert(runs, at, r)
	}
	first := slices.IndexFunc(runs, func(r orchestrator.Run) bool { return r.Pair == 1 && r.Arm == orchestrator.ArmCandidate })
	candidate := runs[first]
	add(candidate, len(runs), func(r *orchestrator.Run) { r.Pair, r.Result.P95MS = 99, 1 })         // of a round that was cut short
	add(candidate, len(runs), func(r *orchestrator.Run) { r.Version, r.Result.P95MS = 77, 1 })      // another proposal's
	add(candidate, len(runs), func(r *orchestrator.Run) { r.Arm, r.Result.P95MS = "screen", 1 })    // no half of a pair
	add(candidate, len(runs), func(r *orchestrator.Run) { r.Result.Invalid = []string{"no good"} }) // no evidence
	add(candidate, first, func(r *orchestrator.Run) { r.Result.P95MS = 9999 })                      // made again: the last counts
	got, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, c.Limits)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))
}

func TestTheNoiseOfThenCounts(t *testing.T) {
	c, runs := judgedCycle(t, 100)
	var wild orchestrator.KnownNoise
	for _, s := range c.Scenarios {
		wild.Known = append(wild.Known, verdict.Noise{Scenario: s, Metric: verdict.P95, SD: 0.5, Pairs: 30})
	}
	r, err := orchestrator.Rejudge(c, runs, wild, c.Limits)
	require.NoError(t, err)
	require.NotEqual(t, verdict.Kept, r.Verdict.Outcome)
	require.False(t, r.Confirmed)
	require.Contains(t, r.Origin(), "something else than is stored")
}

func TestACycleWithoutPairsSaysSo(t *testing.T) {
	c, runs := judgedCycle(t, 100)
	for name, test := range map[string]struct {
		change func(c *orchestrator.Cycle) []orchestrator.Run
		says   string
	}{
		"failed before": {func(c *orchestrator.Cycle) []orchestrator.Run {
			c.Status, c.Why, c.Verdict = orchestrator.Failed, "the generator is out of reach", nil
			return runs[:2]
		}, "no pairs to judge: it ended before any was measured (failed: the generator is out of reach)"},
		"one pair": {func(c *orchestrator.Cycle) []orchestrator.Run {
			c.Status = orchestrator.Cancelled
			return slices.DeleteFunc(slices.Clone(runs), func(r orchestrator.Run) bool { return r.Pair > 1 })
		}, "the judge looks after 3 at the earliest"},
		"still running": {func(c *orchestrator.Cycle) []orchestrator.Run {
			c.Status = orchestrator.Verifying
			return runs
		}, "still verifying"},
		"a calibration": {func(c *orchestrator.Cycle) []orchestrator.Run {
			c.Kind = orchestrator.Calibrate
			return runs
		}, "no candidate"},
	} {
		k := c
		kept := test.change(&k)
		_, err := orchestrator.Rejudge(k, kept, orchestrator.KnownNoise{}, c.Limits)
		require.ErrorIs(t, err, orchestrator.ErrInvalid, name)
		require.ErrorContains(t, err, test.says, name)
	}
	_, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, verdict.Limits{P95Increase: -1})
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
}

// Pairs of a cycle that ended without a verdict are evidence all the same.
func TestACancelledCyclesPairsCanBeJudged(t *testing.T) {
	c, runs := judgedCycle(t, 250)
	c.Status, c.Verdict = orchestrator.Cancelled, nil
	r, err := orchestrator.Rejudge(c, runs, orchestrator.KnownNoise{}, c.Limits)
	require.NoError(t, err)
	require.Equal(t, verdict.RolledBack, r.Verdict.Outcome)
	require.Contains(t, r.Origin(), "ended without a verdict")
}
