package orchestrator_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/loadtest/k6test"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
)

// played is a LoadRunner that spoils runs: those are played by a k6 that puts load on nothing, and measured by the real driver
// and reader. Their requests take up to a second.
type played struct {
	*load
	t    *testing.T
	kind func(run, version int) *k6test.Kind // nil: a sound run, which is the fake's
}

func (p *played) Run(ctx context.Context, s loadtest.Scenario, progress func(loadtest.Progress)) (loadtest.Result, error) {
	k := p.kind(int(p.made.Load())+1, p.proxies.serves())
	if k == nil {
		return p.load.Run(ctx, s, progress)
	}
	p.made.Add(1)
	r, err := loadtest.Choose(ctx, loadtest.K6, loadtest.Config{K6: k.Program(p.t, s.Shape, 1000), Scratch: p.t.TempDir()})
	if err != nil {
		return loadtest.Result{}, err
	}
	return r.Run(ctx, s, progress)
}

// playedCycle makes a quick cycle in two scenarios. Runs 1 and 2 are the baseline, 3 is settling, the others are in pairs.
func playedCycle(t *testing.T, kind func(run, version int) *k6test.Kind) (*bench, orchestrator.Cycle) {
	t.Helper()
	b := newBench(proposes{algorithm: balance.ExpectedCompletion})
	b.load.p95 = map[int]float64{1: 200, 2: 100}
	p := &played{load: b.load, t: t, kind: kind}
	b.tuner.Driver = func(loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) { return p, loadtest.K6, nil }
	c := request()
	c.Profile = loadtest.Quick
	c, err := b.tuner.Run(t.Context(), c)
	require.NoError(t, err)
	return b, c
}

func TestASoundRunIsJudged(t *testing.T) {
	_, c := playedCycle(t, func(run, _ int) *k6test.Kind {
		if run == 1 {
			return &k6test.Sound
		}
		return nil
	})
	require.Equal(t, orchestrator.Kept, c.Status, c.Why)
}

func TestARunThatIsNoEvidenceNeverReachesTheJudge(t *testing.T) {
	for _, k := range k6test.Kinds {
		for where, spoilt := range map[string]func(run, version int) bool{
			"in the baseline":      func(run, _ int) bool { return run <= 2 },
			"the champion's half":  func(run, version int) bool { return run > 3 && version == 1 },
			"the candidate's half": func(run, version int) bool { return run > 3 && version == 2 },
			"both halves":          func(run, _ int) bool { return run > 3 },
		} {
			if k.Costly && where != "the candidate's half" {
				continue
			}
			t.Run(k.Name+", "+where, func(t *testing.T) {
				t.Parallel()
				b, c := playedCycle(t, func(run, version int) *k6test.Kind {
					if spoilt(run, version) {
						return &k
					}
					return nil
				})
				championIsBack(t, b)
				busy := func(share float64) bool {
					return slices.ContainsFunc(b.ledger.runs, func(r orchestrator.Run) bool { return r.Result.DriverCPU > share })
				}
				require.True(t, !k.Costly || busy(0.05), "it burns what it gets, on any machine")
				if k.Costly && !busy(0.8) {
					t.Skip("this machine is too busy to give a driver most of a core")
				}
				if k.Failing && where == "the candidate's half" {
					require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
					require.Contains(t, c.Why, "error rate")
					return
				}
				require.Equal(t, orchestrator.Failed, c.Status)
				require.Nil(t, c.Verdict)
				require.Contains(t, c.Why, k.Want)
			})
		}
	}
}

func TestACandidateThatFailsEveryRequestGoesBackWhileItSettles(t *testing.T) {
	for _, k := range k6test.Kinds {
		if !k.Failing {
			continue
		}
		b, c := playedCycle(t, func(_, version int) *k6test.Kind {
			if version == 2 {
				return &k
			}
			return nil
		})
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		require.Contains(t, c.Why, "while settling")
		championIsBack(t, b)
	}
}

// A half that is no evidence spoils its pair: both are made again, side by side, in the same order and under the same seed.
func TestAPairWithAHalfThatIsNoEvidenceIsMadeAgain(t *testing.T) {
	for _, k := range k6test.Kinds {
		if k.Refused || k.Failing || k.Costly {
			continue
		}
		for _, at := range []int{4, 5} { // either half of the first pair
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				b, c := playedCycle(t, func(run, _ int) *k6test.Kind {
					if run == at {
						return &k
					}
					return nil
				})
				require.Equal(t, orchestrator.Kept, c.Status, c.Why)
				for _, f := range c.Verdict.Findings {
					if f.Metric == verdict.P95 {
						require.InEpsilon(t, 200, f.Champion, 0.03)
						require.InEpsilon(t, 100, f.Candidate, 0.03)
					}
				}
				pairsAreWhole(t, b.ledger.runs)
			})
		}
	}
}

// pairsAreWhole checks that what is left of each pair is one valid run of each arm, one right after the other.
func pairsAreWhole(t *testing.T, runs []orchestrator.Run) {
	t.Helper()
	type pair struct {
		scenario string
		n        int
	}
	valid := map[pair][]int{}
	first := map[pair]orchestrator.Arm{}
	for i, r := range runs {
		p := pair{r.Scenario, r.Pair}
		if r.Pair == 0 {
			continue
		}
		if first[p] == "" {
			first[p] = r.Arm
		}
		if len(r.Result.Invalid) == 0 {
			valid[p] = append(valid[p], i)
		}
	}
	require.NotEmpty(t, valid)
	for p, at := range valid {
		require.Len(t, at, 2, "%v", p)
		a, b := runs[at[0]], runs[at[1]]
		require.Equal(t, at[0]+1, at[1], "%v: side by side", p)
		require.Equal(t, first[p], a.Arm, "%v: in the order of the first try", p)
		require.NotEqual(t, a.Arm, b.Arm, "%v", p)
		require.Equal(t, a.Seed, b.Seed, "%v", p)
	}
}

// Runs with two scenarios: 1–2 baseline, 3 settle, 4… pairs.
func TestOneScenarioWithoutEvidenceIsEnoughToFail(t *testing.T) {
	for from, step := range map[int]orchestrator.Status{1: orchestrator.Baseline, 4: orchestrator.Verifying} {
		inBubble(t, func(t *testing.T) {
			b := newBench(proposes{algorithm: balance.ExpectedCompletion})
			b.load.p95 = map[int]float64{1: 200, 2: 100}
			b.load.tell = func(run int, s loadtest.Scenario, _ int, r *loadtest.Result) {
				if run >= from && s.Shape.Name == "burst" {
					r.Invalid = []string{"The driver used 93% of a core."}
				}
			}
			c, err := run(t, b, t.Context())
			require.NoError(t, err)
			require.Equal(t, orchestrator.Failed, c.Status)
			require.Equal(t, step, last(b.ledger.statuses(), 2))
			require.Contains(t, c.Why, "scenario burst gave no evidence twice")
			require.Contains(t, c.Why, "The driver used 93% of a core.")
			require.Nil(t, c.Verdict)
			championIsBack(t, b)
		})
	}
}

func last[T any](all []T, n int) T { return all[len(all)-n] }

func TestASettlingRunWithoutEvidenceFailsTheCycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.tell = func(_ int, s loadtest.Scenario, _ int, r *loadtest.Result) {
			if s.Shape.Name == "settle" {
				r.Invalid = []string{"12 of 480 planned requests were made."}
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "12 of 480")
		require.Nil(t, c.Verdict)
		championIsBack(t, b)
	})
}

func TestACalibrationSaysWhichScenarioGaveNoEvidence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(nil)
		b.load.tell = func(run int, s loadtest.Scenario, _ int, r *loadtest.Result) {
			if s.Shape.Name == "burst" || run == 2 {
				r.Invalid = []string{"dropped"}
			}
		}
		c := request()
		c.Kind = orchestrator.Calibrate
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, orchestrator.Finished, c.Status)
		require.Contains(t, c.Why, "no evidence in burst")
		pairsAreWhole(t, b.ledger.runs)
	})
}

func TestAChampionThatFailsEveryRequestIsNoBaseline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.tell = func(_ int, _ loadtest.Scenario, _ int, r *loadtest.Result) {
			r.Failed, r.RPS, r.ErrorRate, r.Invalid = r.Requests, 0, 1, []string{"Every request failed (503: 5000)."}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "Every request failed (503: 5000).")
		require.Len(t, b.ledger.versions, 1, "nothing was proposed")
	})
}

func TestScenariosOfOneNameAreRefused(t *testing.T) {
	b := newBench(proposes{algorithm: balance.IPHash})
	b.tuner.Site.Scenarios = append(b.tuner.Site.Scenarios, b.tuner.Site.Scenarios[0])
	c, err := run(t, b, t.Context())
	require.NoError(t, err)
	require.Equal(t, orchestrator.Failed, c.Status)
	require.Contains(t, c.Why, "two scenarios are called steady")
	require.Zero(t, b.load.made.Load())
}
