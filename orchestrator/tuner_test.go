package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/ruleversions"
)

// run makes one cycle under virtual time.
func run(t *testing.T, b *bench, ctx context.Context) (c orchestrator.Cycle, err error) {
	t.Helper()
	c, err = b.tuner.Run(ctx, request())
	return c, err
}

func inBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestABetterCandidateIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
		require.Equal(t, 2, b.ledger.pointer.Accepted)
		require.Equal(t, 2, b.proxies.serves())
		require.False(t, b.proxies.now.Trial, "kept rules are written to the proxy's file")
		require.Equal(t, []orchestrator.Status{"baseline", "generating", "applying", "settling", "verifying", "kept"}, b.ledger.statuses())
	})
}

func TestAWorseCandidateGoesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.IPHash})
		b.load.p95 = map[int]float64{1: 100, 2: 250}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.RolledBack, c.Status)
		require.Contains(t, c.Why, "p95")
		championIsBack(t, b)
	})
}

func TestErrorsWhileSettlingGoBackAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.IPHash})
		b.load.errors = map[int]float64{2: 0.05}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.RolledBack, c.Status)
		require.Contains(t, c.Why, "while settling")
		require.NotContains(t, b.ledger.statuses(), orchestrator.Verifying)
		championIsBack(t, b)
	})
}

func championIsBack(t *testing.T, b *bench) {
	t.Helper()
	require.Equal(t, 1, b.ledger.pointer.Accepted)
	require.Equal(t, 1, b.ledger.pointer.Desired)
	require.Zero(t, b.ledger.pointer.Trial)
	require.Equal(t, 1, b.proxies.serves(), "the proxies run the champion")
	require.Equal(t, b.ledger.versions[0].Hash, b.proxies.now.Hash)
}

// Runs with two scenarios: 1–2 baseline, 3 settle, 4… pairs.
func TestCancelAtEveryStepLeavesTheChampion(t *testing.T) {
	for at := 1; at <= 8; at++ {
		inBubble(t, func(t *testing.T) {
			b := newBench(proposes{algorithm: balance.ExpectedCompletion})
			ctx, cancel := context.WithCancelCause(t.Context())
			b.load.during = func(n int, _ loadtest.Scenario) {
				if n == at {
					cancel(orchestrator.ErrCancelled)
				}
			}
			c, err := run(t, b, ctx)
			require.NoError(t, err)
			require.Equal(t, orchestrator.Cancelled, c.Status, "cancelled in run %d", at)
			require.Contains(t, c.Why, "v1 is in force")
			championIsBack(t, b)
		})
	}
}

func TestAStoppedOrchestratorPutsTheChampionBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		ctx, stop := context.WithCancel(t.Context())
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				stop()
			}
		}
		c, err := run(t, b, ctx)
		require.NoError(t, err)
		require.Equal(t, orchestrator.Interrupted, c.Status)
		championIsBack(t, b)
	})
}

func TestALoadDriverThatFailsPutsTheChampionBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.fail = func(n int, _ loadtest.Scenario) error {
			if n == 6 {
				return errors.New("k6 is gone")
			}
			return nil
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "k6 is gone")
		championIsBack(t, b)
	})
}

func TestRulesChangedBehindRetunesBackVoidTheCycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				b.proxies.now.Hash = "edited by hand"
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "void")
		championIsBack(t, b)
	})
}

func TestAProxyThatRestartsVoidsTheCycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				b.proxies.now.BootID = "boot-2"
			}
		}
		c, _ := run(t, b, t.Context())
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "restarted")
		championIsBack(t, b)
	})
}

func TestARunThatIsNoEvidenceIsMadeOnceMore(t *testing.T) {
	for invalid, want := range map[int]orchestrator.Status{1: orchestrator.Kept, 2: orchestrator.Failed} {
		inBubble(t, func(t *testing.T) {
			b := newBench(proposes{algorithm: balance.ExpectedCompletion})
			b.load.p95 = map[int]float64{1: 200, 2: 100}
			b.load.invalid = invalid
			c, err := run(t, b, t.Context())
			require.NoError(t, err)
			require.Equal(t, want, c.Status, c.Why)
		})
	}
}

func TestAChampionThatCantBePutBackIsLoud(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.IPHash})
		b.load.p95 = map[int]float64{2: 300}
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 3 {
				b.proxies.mu.Lock()
				b.proxies.refuse, b.proxies.only = errors.New("422"), 1
				b.proxies.mu.Unlock()
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "ROLLBACK FAILED")
		require.Contains(t, c.Why, "safe rules are in force")
		require.True(t, b.proxies.safe)
		require.Equal(t, rules.Sum(rules.Render(rules.Safe())), b.proxies.now.Hash)
	})
}

func TestWithoutALedgerTheChampionGoesBackAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				b.ledger.mu.Lock()
				b.ledger.down = true
				b.ledger.mu.Unlock()
			}
		}
		_, err := run(t, b, t.Context())
		require.ErrorIs(t, err, errDown, "the end could not be stored")
		require.Equal(t, 1, b.proxies.serves())
	})
}

func TestAHangingLedgerDoesNotLeaveTheCandidateInForce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		ctx, cancel := context.WithCancelCause(t.Context())
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				b.ledger.mu.Lock()
				b.ledger.hangs = true
				b.ledger.mu.Unlock()
				cancel(orchestrator.ErrCancelled)
			}
		}
		_, err := run(t, b, ctx)
		require.Error(t, err, "the end could not be stored")
		require.Equal(t, 1, b.proxies.serves())
	})
}

// A process that was frozen finds its calls timed out, and may have been replaced.
func TestWhatAnHeirHasAppliedIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		heirs := rules.Active{Version: 9, Hash: "of an heir", Generation: 99}
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 5 {
				b.ledger.mu.Lock()
				b.ledger.hangs = true
				b.ledger.mu.Unlock()
				b.proxies.mu.Lock()
				b.proxies.now = heirs
				b.proxies.mu.Unlock()
			}
		}
		_, err := run(t, b, t.Context())
		require.Error(t, err, "the end could not be stored")
		require.Equal(t, heirs, b.proxies.now)
	})
}

func TestAnUnknownKindIsRefused(t *testing.T) {
	b := newBench(proposes{algorithm: balance.IPHash})
	c := request()
	c.Kind = "bench"
	c, err := b.tuner.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Failed, c.Status)
	require.Empty(t, b.ledger.moves)
}

func TestASettlingRunThatIsNoEvidenceDoesNotRollBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		b.load.during = func(n int, _ loadtest.Scenario) {
			b.load.invalid, b.load.errors[2] = 0, 0
			if n == 3 { // settling: stopped early, its one error is a fifth of five requests
				b.load.invalid, b.load.errors[2] = 1, 0.2
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
	})
}

func TestWhatIsMeasuredIsTheVersionThatIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(nil)
		other := b.ledger.add(ruleversions.Draft{Rules: everywhere(balance.Random), Origin: rules.OriginHuman})
		c := request()
		c.Kind = orchestrator.Calibrate
		b.ledger.afterRun = func(n int) {
			if n == 2 { // somebody applies other rules between two runs
				require.NoError(t, b.proxies.Apply(t.Context(), other, 9, false))
			}
		}
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, orchestrator.Failed, c.Status)
		require.Contains(t, c.Why, "void: the target runs v2, not v1")
		require.Len(t, b.ledger.runs, 2)
	})
}

func everywhere(a balance.Algorithm) rules.RuleSet {
	rs := rules.Default()
	for s := range rs.Rules {
		rs.Rules[s] = rules.Rule{Algorithm: a, Reason: "everywhere"}
	}
	return rs
}

func TestAStumblingLedgerDoesNotCostAProvedVersion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 4 {
				b.ledger.mu.Lock()
				b.ledger.saveErr = errDown
				b.ledger.mu.Unlock()
				time.AfterFunc(5*time.Second, func() {
					b.ledger.mu.Lock()
					b.ledger.saveErr = nil
					b.ledger.mu.Unlock()
				})
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
		require.Equal(t, 2, b.ledger.pointer.Accepted)
	})
}

// The end of a kept cycle is stored before the tuner is done; that it is nobody's any more is no loss then.
func TestAKeptCycleThatHasEndedIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		ctx, cancel := context.WithCancelCause(t.Context())
		var mode steering.Mode
		b.ledger.kept = func() {
			mode = b.proxies.mode
			cancel(orchestrator.ErrLost)
			time.Sleep(time.Second) // who saves gives up
		}
		c, err := run(t, b, ctx)
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status)
		require.Equal(t, steering.Mode{Mode: steering.Adaptive, TimeScale: 1}, mode, "nobody cleans up after a cycle that has ended")
	})
}

func TestTheMeasuringModeEndsWithTheCycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, steering.Mode{Mode: steering.Adaptive, TimeScale: 1}, b.proxies.mode)
	})
}

func TestProposalsThatNeedNoTrial(t *testing.T) {
	t.Run("the champion's own rules", func(t *testing.T) {
		b := newBench(proposes{algorithm: rules.Default().Rules["SPIKE"].Algorithm})
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.NoChange, c.Status)
		require.Len(t, b.ledger.versions, 1, "no version was stored")
		championIsBack(t, b)
	})
	t.Run("rules that were rolled back", func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.IPHash})
		a, _ := proposes{algorithm: balance.IPHash}.Advise(t.Context(), evidence(b))
		b.ledger.add(draft(a))
		b.ledger.judged = append(b.ledger.judged, attempt(2, "p95 in burst +80%"))
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.NoChange, c.Status)
		require.Contains(t, c.Why, "p95 in burst +80%")
	})
	t.Run("the champion's own rules, forced", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			b := newBench(proposes{algorithm: rules.Default().Rules["SPIKE"].Algorithm})
			c := request()
			c.Force = true
			c, err := b.tuner.Run(t.Context(), c)
			require.NoError(t, err)
			require.NotEqual(t, orchestrator.NoChange, c.Status)
			require.NotEqual(t, orchestrator.RolledBack, c.Status)
		})
	})
}

func TestAGeneratorThatFailsTouchesNothing(t *testing.T) {
	b := newBench(proposes{algorithm: balance.IPHash, err: errors.New("429")})
	before := b.proxies.now
	c, err := run(t, b, t.Context())
	require.NoError(t, err)
	require.Equal(t, orchestrator.Failed, c.Status)
	require.Contains(t, c.Why, "429")
	require.Equal(t, before, b.proxies.now)
	require.Len(t, b.ledger.versions, 1)
}

func TestACrashBetweenVerdictAndRecordIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n > 3 {
				b.ledger.mu.Lock()
				b.ledger.saveErr = orchestrator.ErrLost
				b.ledger.mu.Unlock()
			}
		}
		_, err := run(t, b, t.Context())
		require.ErrorIs(t, err, orchestrator.ErrLost)
		require.Equal(t, 1, b.ledger.pointer.Accepted)
	})
}

func TestCalibrationRunsTheChampionAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(nil)
		c := request()
		c.Kind = orchestrator.Calibrate
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, orchestrator.Finished, c.Status)
		require.Empty(t, b.ledger.moves)
		for _, r := range b.ledger.runs {
			require.Equal(t, 1, r.Version)
		}
	})
}

func TestBothHalvesOfAPairHaveTheSameSeed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		type key struct {
			scenario string
			pair     int
		}
		seeds := map[key][]uint64{}
		firsts := map[orchestrator.Arm]int{}
		for _, r := range b.ledger.runs {
			if r.Pair == 0 {
				continue
			}
			k := key{r.Scenario, r.Pair}
			if len(seeds[k]) == 0 {
				firsts[r.Arm]++
			}
			seeds[k] = append(seeds[k], r.Seed)
		}
		for k, s := range seeds {
			require.Len(t, s, 2, "%v", k)
			require.Equal(t, s[0], s[1], "%v", k)
		}
		require.NotZero(t, firsts[orchestrator.ArmChampion], "each arm is first in some pairs")
		require.NotZero(t, firsts[orchestrator.ArmCandidate])
	})
}

func TestRulesFromAFileAreJudged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(nil)
		b.load.p95 = map[int]float64{2: 300}
		rs := rules.Default()
		rs.Rules["SPIKE"] = rules.Rule{Algorithm: balance.IPHash, Reason: "try it"}
		c := request()
		c.Generator, c.Proposal = "file", string(rules.Render(rs))
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, orchestrator.RolledBack, c.Status)
		require.Equal(t, verdict.RolledBack, c.Verdict.Outcome)
	})
}

func evidence(b *bench) advisor.Evidence {
	return advisor.Evidence{Champion: b.ledger.versions[0].Rules}
}

func draft(a advisor.Advice) ruleversions.Draft {
	return ruleversions.Draft{Parent: 1, Rules: a.Rules, Origin: a.Origin}
}

func attempt(version int, why string) advisor.Attempt {
	return advisor.Attempt{Version: version, Outcome: "rolled_back", Why: why}
}
