package postgres_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/orchestrator/verdict"
)

// noisy is a run for the noise: what matters of it.
func noisy(cycle int64, arm orchestrator.Arm, pair int, p95, rps, errors float64, invalid ...string) orchestrator.Run {
	return orchestrator.Run{CycleID: cycle, Scenario: "burst", Arm: arm, Pair: pair, Result: loadtest.Result{
		Driver: loadtest.Builtin, Started: now(), Requests: 2000, P95MS: p95, RPS: rps, ErrorRate: errors, Invalid: invalid}}
}

// of makes a run another version's.
func of(r orchestrator.Run, version int) orchestrator.Run {
	r.Version = version
	return r
}

// claimed is a cycle of a request that an instance has taken.
func claimed(t *testing.T, s *postgres.Store, r orchestrator.Request) orchestrator.Cycle {
	t.Helper()
	_, err := s.Enqueue(t.Context(), r)
	require.NoError(t, err)
	c, ok, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	return c
}

func saveRuns(t *testing.T, s *postgres.Store, runs ...orchestrator.Run) {
	t.Helper()
	for _, r := range runs {
		_, err := s.SaveRun(t.Context(), r)
		require.NoError(t, err)
	}
}

// calibrated is a calibration in a setup, whose pairs of burst differ by these logs of their ratios.
func calibrated(t *testing.T, s *postgres.Store, setup orchestrator.Setup, logs ...float64) {
	t.Helper()
	r := request()
	r.Kind = orchestrator.Calibrate
	c := claimed(t, s, r)
	c.Setup = setup
	for i, l := range logs {
		saveRuns(t, s, noisy(c.ID, orchestrator.ArmChampion, i+1, 100, 50, 0), noisy(c.ID, orchestrator.ArmCandidate, i+1, 100*math.Exp(l), 50, 0))
	}
	end(t, s, c, orchestrator.Finished)
}

func TestNoiseIsWhatEqualArmsScatter(t *testing.T) {
	s, _, dsn := seeded(t)
	r := request()
	r.Kind = orchestrator.Calibrate
	aa := claimed(t, s, r)
	const champion, candidate = orchestrator.ArmChampion, orchestrator.ArmCandidate
	saveRuns(t, s,
		noisy(aa.ID, champion, 1, 100, 50, 0.01), noisy(aa.ID, candidate, 1, 100*math.E, 50, 0.03), // ln ratio 1, difference 0.02
		noisy(aa.ID, champion, 2, 100, 50, 0), noisy(aa.ID, candidate, 2, 9999, 1, 1, "the generator was too busy"),
		noisy(aa.ID, candidate, 2, 100, 50, 0), // made again: ln ratio 0
		noisy(aa.ID, orchestrator.ArmBaseline, 0, 5000, 1, 0.5),
		noisy(aa.ID, champion, 3, 7, 7, 0)) // half a pair
	end(t, s, aa, orchestrator.Finished)

	tune := running(t, s)
	saveRuns(t, s, // ln ratios 0 and 2 around their mean of 1: 2 squares, one degree of freedom; that the pairs themselves drift is no noise
		noisy(tune.ID, champion, 1, 100, 50, 0), noisy(tune.ID, candidate, 1, 100, 50, 0.2),
		noisy(tune.ID, champion, 2, 9000, 50, 0), noisy(tune.ID, candidate, 2, 9000*math.Exp(2), 50, 0.2),
		of(noisy(tune.ID, candidate, 2, 1, 1, 1), 1)) // another proposal's, of a tournament
	elsewhere, err := postgres.Open(t.Context(), dsn, postgres.Options{Machine: "bench-2"})
	require.NoError(t, err)
	defer elsewhere.Close()
	end(t, s, tune, orchestrator.Failed)
	saveRuns(t, elsewhere, noisy(running(t, elsewhere).ID, champion, 3, 900, 900, 0.9))

	got, err := s.Noise(t.Context(), loadtest.Quick, loadtest.Builtin)
	require.NoError(t, err)
	want := []verdict.Noise{
		{Scenario: "burst", Metric: verdict.P95, SD: math.Sqrt((1 + 0 + 2) / 3.), Pairs: 4},
		{Scenario: "burst", Metric: verdict.RPS, SD: 0, Pairs: 4},
		{Scenario: "burst", Metric: verdict.ErrorRate, SD: math.Sqrt(0.02 * 0.02 / 3), Pairs: 4},
	}
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)))

	for _, other := range []func() ([]verdict.Noise, error){
		func() ([]verdict.Noise, error) { return s.Noise(t.Context(), loadtest.Quick, loadtest.K6) },
		func() ([]verdict.Noise, error) { return s.Noise(t.Context(), loadtest.Nightly, loadtest.Builtin) },
		func() ([]verdict.Noise, error) { return elsewhere.Noise(t.Context(), loadtest.Quick, loadtest.Builtin) },
	} {
		none, err := other()
		require.NoError(t, err)
		require.Empty(t, none, "profiles, drivers and machines are never mixed")
	}
	all, err := s.AllNoise(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.False(t, all[0].Updated.IsZero())
}

// What a verdict rests on is what was known before its pairs, whatever was measured since.
func TestTheNoiseOfThenComesBack(t *testing.T) {
	s, _, dsn := seeded(t)
	early, late := orchestrator.Setup{Machine: "linux/amd64, 2 processors", Backends: "a=h:1×6"}, orchestrator.Setup{Machine: "linux/amd64, 8 processors"}
	calibrated(t, s, early, 0.1, 0.1)
	known, err := s.Noise(t.Context(), loadtest.Quick, loadtest.Builtin)
	require.NoError(t, err)

	tune := running(t, s)
	tune.Driver = loadtest.Builtin
	saveRuns(t, s, noisy(tune.ID, orchestrator.ArmBaseline, 0, 1, 1, 0))
	for pair := 1; pair <= 2; pair++ {
		saveRuns(t, s, noisy(tune.ID, orchestrator.ArmChampion, pair, 100*float64(pair), 50, 0), noisy(tune.ID, orchestrator.ArmCandidate, pair, 100, 50, 0))
	}
	end(t, s, tune, orchestrator.Inconclusive)
	calibrated(t, s, late, 2, 2)

	elsewhere, err := postgres.Open(t.Context(), dsn, postgres.Options{Machine: "bench-2"}) // where it is asked for does not matter
	require.NoError(t, err)
	defer elsewhere.Close()
	for _, asked := range []*postgres.Store{s, elsewhere} {
		then, err := asked.NoiseThen(t.Context(), tune.ID)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(known, then.Known, cmpopts.EquateApprox(0, 1e-12)))
		require.Equal(t, []any{loadtest.Quick, loadtest.Builtin, early}, []any{then.Profile, then.Driver, then.Setup})
		require.False(t, then.Updated.IsZero())
	}
	all, err := s.AllNoise(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, late, all[0].Setup, "the newest pair's")
	require.Greater(t, all[0].Known[0].SD, 1.0)
}

func TestWithoutPairsNothingWasKnownThen(t *testing.T) {
	s, _, _ := seeded(t)
	calibrated(t, s, orchestrator.Setup{}, 0.1, 0.1)
	c := running(t, s)
	then, err := s.NoiseThen(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, orchestrator.KnownNoise{Profile: loadtest.Quick, Driver: loadtest.Builtin}, then)
	_, err = s.NoiseThen(t.Context(), 99)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
}

// A verdict that was given over real rows comes out again from them, to the figure.
func TestAStoredCycleIsJudgedAgainAsItWas(t *testing.T) {
	s, _, _ := seeded(t)
	calibrated(t, s, orchestrator.Setup{}, 0.02, -0.03, 0.01)
	c, _ := onTrial(t, s)
	known, err := s.Noise(t.Context(), loadtest.Quick, loadtest.Builtin)
	require.NoError(t, err)
	var pairs []verdict.Pair
	looks := verdict.ShouldLook(loadtest.Quick)
	for n := 1; n <= looks[0]; n++ {
		half := func(arm orchestrator.Arm, version int, p95 float64) orchestrator.Run {
			r := noisy(c.ID, arm, n, p95, 50, 0.001)
			r.Version, r.Result.Requests = version, 2000
			return r
		}
		a, b := half(orchestrator.ArmChampion, c.Champion, 100.123456789+float64(n)), half(orchestrator.ArmCandidate, c.Candidate, 190.987654321)
		saveRuns(t, s, b, a)
		m := func(r orchestrator.Run) verdict.Measurement {
			return verdict.Measurement{Requests: r.Result.Requests, RPS: r.Result.RPS, P95MS: r.Result.P95MS, ErrorRate: r.Result.ErrorRate}
		}
		pairs = append(pairs, verdict.Pair{Scenario: "burst", Champion: m(a), Candidate: m(b)})
	}
	v, err := verdict.Judge(pairs, c.Limits, known, looks)
	require.NoError(t, err)
	require.Equal(t, verdict.RolledBack, v.Outcome, v.Reason)
	c.Verdict, c.Driver = &v, loadtest.Builtin
	end(t, s, c, orchestrator.RolledBack)

	stored, err := s.Cycle(t.Context(), c.ID)
	require.NoError(t, err)
	runs, err := s.Runs(t.Context(), c.ID)
	require.NoError(t, err)
	then, err := s.NoiseThen(t.Context(), c.ID)
	require.NoError(t, err)
	r, err := orchestrator.Rejudge(stored, runs, then, stored.Limits)
	require.NoError(t, err)
	require.True(t, r.Confirmed)
	require.Empty(t, cmp.Diff(v, r.Verdict))
	wide, err := orchestrator.Rejudge(stored, runs, then, verdict.Limits{P95Increase: 1.5, RPSDecrease: 0.15, ErrorIncrease: 0.02})
	require.NoError(t, err)
	require.Equal(t, verdict.Kept, wide.Verdict.Outcome, wide.Verdict.Reason)
	again, err := s.Cycle(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(stored, again), "nothing that is stored changes")
}

// A calibration that started by itself never keeps a schedule's cycle waiting, queued or running.
func TestASelfStartedCalibrationStepsAsideForASchedule(t *testing.T) {
	for _, c := range []struct {
		trigger string
		claim   bool
		check   func(t *testing.T, k orchestrator.Cycle)
	}{
		{"system", false, func(t *testing.T, k orchestrator.Cycle) {
			require.Equal(t, orchestrator.Cancelled, k.Status)
			require.Equal(t, "it made way for the schedule nightly", k.Why)
		}},
		{"system", true, func(t *testing.T, k orchestrator.Cycle) { require.True(t, k.CancelRequested) }},
		{"cli", true, func(t *testing.T, k orchestrator.Cycle) { require.False(t, k.CancelRequested, "somebody asked for it") }},
		{"cli", false, func(t *testing.T, k orchestrator.Cycle) { require.Equal(t, orchestrator.Queued, k.Status) }},
	} {
		s, _, _ := seeded(t)
		r := request()
		r.Kind, r.Trigger = orchestrator.Calibrate, c.trigger
		k, err := s.Enqueue(t.Context(), r)
		require.NoError(t, err)
		if c.claim {
			_, ok, err := s.Claim(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
		}
		_, err = s.SaveSchedule(t.Context(), orchestrator.Schedule{Name: "nightly", Cron: "@hourly", Zone: "UTC", Profile: loadtest.Nightly, Enabled: true})
		require.NoError(t, err)
		fired, err := s.FireDue(t.Context(), time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Len(t, fired, 1)
		k, err = s.Cycle(t.Context(), k.ID)
		require.NoError(t, err)
		c.check(t, k)
	}
}
