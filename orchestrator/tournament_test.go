package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// answers is a generator that proposes an algorithm for SPIKE in each answer, and keeps what it was asked.
type answers struct {
	algorithms []balance.Algorithm
	also       func(i int, rs *rules.RuleSet)
	asked      int
	refuse     func(context.Context, rules.RuleSet) []string
}

func (g *answers) Proposals(ctx context.Context, e advisor.Evidence, n int) (p advisor.Proposals, err error) {
	g.asked, g.refuse = n, e.Refuse
	for i, a := range g.algorithms {
		advice, _ := proposes{algorithm: a}.Advise(ctx, e)
		if g.also != nil {
			g.also(i, &advice.Rules)
		}
		advice.Author = fmt.Sprintf("model %d", i+1)
		p.Advice = append(p.Advice, advice)
	}
	return p, nil
}

// champions' p95 is 200 ms, with LEAST_CONNECTIONS for SPIKE.
func tournament(local balance.Algorithm, of ...balance.Algorithm) (*bench, *answers) {
	g := &answers{algorithms: of}
	b := newBench(g)
	b.tuner.Generators["local"] = proposes{algorithm: local}
	b.load.spike = map[balance.Algorithm]float64{balance.LeastConnections: 200}
	return b, g
}

func fates(b *bench) (all []orchestrator.Fate) {
	for _, p := range b.ledger.noted {
		all = append(all, p.Fate)
	}
	return all
}

func TestTheBestOfSeveralProposalsMeetsTheChampion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, g := tournament(balance.ExpectedCompletion, balance.IPHash, balance.P2CPeakEWMA)
		b.load.spike[balance.IPHash], b.load.spike[balance.P2CPeakEWMA], b.load.spike[balance.ExpectedCompletion] = 400, 150, 80
		held, _ := loadtest.Load("gradual")
		held.HoldOut = true
		b.tuner.Site.Scenarios = append(b.tuner.Site.Scenarios, loadtest.Scenario{Shape: held})
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
		require.Equal(t, 2, g.asked, "the profile's number of answers")
		require.Equal(t, []orchestrator.Fate{"beaten", "beaten", "chosen"}, fates(b))
		require.Len(t, b.ledger.versions, 2, "only the chosen one became a version")
		chosen := b.ledger.noted[2]
		require.Equal(t, balance.ExpectedCompletion, b.ledger.versions[1].Rules.Rules[traffic.Spike].Algorithm)
		require.Equal(t, b.ledger.versions[1].YAML, chosen.YAML, "it is the same bytes that were screened")
		require.Equal(t, 2, chosen.Version)
		require.Equal(t, []int{3, 2, 1}, []int{b.ledger.noted[0].Screening.Place, b.ledger.noted[1].Screening.Place, chosen.Screening.Place})
		require.Contains(t, chosen.Why, "chosen by the screening")
		require.Len(t, chosen.Screening.Scenarios, 2, "a held-out scenario chooses nothing")
		require.Equal(t, []orchestrator.MoveKind{"rollback", "trial"}, afterScreening(b.ledger.moves)[:2], "the champion is back before the trial")
		for _, p := range c.Verdict.Findings {
			require.Equal(t, c.Verdict.Pairs, p.Pairs)
		}
	})
}

// afterScreening drops the moves up to the last of a screening.
func afterScreening(moves []orchestrator.MoveKind) []orchestrator.MoveKind {
	last := 0
	for i, m := range moves {
		if m == orchestrator.MoveScreen {
			last = i + 1
		}
	}
	return moves[last:]
}

func TestATournamentWithoutTheLocalGeneratorSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.P2CPeakEWMA)
		b.tuner.Generators["local"] = proposes{err: errors.New("no measurements")}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Contains(t, b.ledger.details, "proposal 1 (model 1) of 1 goes on as v2; the local generator has no answer: no measurements")
	})
}

func TestAScreeningSharesItsSeedsWithNoPair(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.IPHash, balance.P2CPeakEWMA)
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		screened, paired := map[string]map[uint64]int{}, map[uint64]bool{}
		for _, r := range b.ledger.runs {
			switch {
			case r.Arm == orchestrator.ArmScreen && r.Algorithm == "":
				require.Equal(t, r.Proposal == 0, r.Version == 1, "a run is under a version or a proposal")
				if screened[r.Scenario] == nil {
					screened[r.Scenario] = map[uint64]int{}
				}
				screened[r.Scenario][r.Seed]++
			case r.Pair > 0:
				paired[r.Seed] = true
			}
		}
		require.Len(t, screened, 2)
		for _, seeds := range screened {
			require.Len(t, seeds, 1, "one round, one seed for all")
			for seed, runs := range seeds {
				require.Equal(t, 4, runs, "three proposals and the champion")
				require.False(t, paired[seed], "by the seeds by which a candidate was chosen it is not judged")
			}
		}
	})
}

func TestProposalsThatNeedNoScreening(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.P2CPeakEWMA, balance.LeastConnections, balance.P2CPeakEWMA, balance.IPHash)
		tried, _ := proposes{algorithm: balance.IPHash}.Advise(t.Context(), evidence(b))
		b.ledger.add(draft(tried))
		b.ledger.pointer.Newest = 2
		b.ledger.judged = []advisor.Attempt{attempt(2, "p95 in burst +80%")}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, []orchestrator.Fate{"refused", "chosen", "refused", "refused"}, fates(b))
		require.Contains(t, b.ledger.noted[0].Why, "does what v1 does")
		require.Contains(t, b.ledger.noted[2].Why, "does what v2 does, which was rolled back: p95 in burst +80%")
		require.Contains(t, b.ledger.noted[3].Why, "it does what proposal 2 (model 2) does")
		require.NotContains(t, b.ledger.moves, orchestrator.MoveScreen)
		require.Equal(t, 3, c.Candidate)
	})
}

func TestWithoutAProposalWorthATrialNothingIsTried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, g := tournament(balance.LeastConnections, balance.P2CPeakEWMA)
		g.also = func(_ int, rs *rules.RuleSet) { rs.Detection.SpikeRate = 0.2 }
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.NoChange, c.Status)
		require.Contains(t, c.Why, "none of 2 proposals is worth a trial")
		require.Contains(t, c.Why, "refused without a trial: detection.spike_rate: 0.20 is not above gradual_increase_rate 0.30")
		require.Empty(t, b.ledger.moves)
		require.Len(t, b.ledger.versions, 1)
		require.Equal(t, rules.Refuse, b.ledger.noted[0].Remarks[0].Severity)
	})
}

func TestAmongEqualsTheOneThatChangesLeastIsTried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, g := tournament(balance.ExpectedCompletion, balance.P2CPeakEWMA, balance.Random)
		g.also = func(i int, rs *rules.RuleSet) {
			rs.Rules[traffic.HighStable] = rules.Rule{Algorithm: balance.LeastResponseTime, Reason: "more of it"}
		}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, []orchestrator.Fate{"beaten", "beaten", "chosen"}, fates(b))
		require.Contains(t, b.ledger.noted[2].Why, "can't tell apart")
		require.Contains(t, b.ledger.noted[0].Why, "changes less (1 against 2)")
	})
}

func TestAProposalThatCantBeMeasuredIsOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.IPHash)
		b.load.spike[balance.IPHash] = 10
		b.load.during = func(int, loadtest.Scenario) {
			if b.proxies.spike() == balance.IPHash {
				b.load.invalid = 1
			} else {
				b.load.invalid = 0
			}
		}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, []orchestrator.Fate{"beaten", "chosen"}, fates(b))
		require.Contains(t, b.ledger.noted[0].Why, "gave no evidence twice")
		require.Contains(t, b.ledger.noted[1].Why, "no other proposal could be measured")
	})
}

func TestAScenarioInWhichTheChampionCantBeMeasuredChoosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.IPHash)
		b.load.during = func(run int, s loadtest.Scenario) {
			b.load.invalid = 0
			if run > 6 && s.Shape.Name == "burst" && b.proxies.spike() == balance.LeastConnections && len(b.ledger.versions) == 1 {
				b.load.invalid = 1
			}
		}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Len(t, b.ledger.noted, 2)
		for _, p := range b.ledger.noted {
			require.Len(t, p.Screening.Scenarios, 1)
			require.Equal(t, "steady", p.Screening.Scenarios[0].Scenario)
		}
	})
}

func TestQuickAsksForOneAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, g := tournament(balance.ExpectedCompletion, balance.P2CPeakEWMA)
		c := request()
		c.Profile = loadtest.Quick
		_, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, 1, g.asked)
		require.Equal(t, []orchestrator.Fate{"chosen"}, fates(b))
		require.NotContains(t, b.ledger.moves, orchestrator.MoveScreen)
	})
}

// Runs with two scenarios: 1–2 baseline, 3–6 rivals, 7–14 screening.
func TestCancelAtEveryRunOfAScreeningLeavesTheChampion(t *testing.T) {
	for at := 7; at <= 14; at++ {
		inBubble(t, func(t *testing.T) {
			b, _ := tournament(balance.ExpectedCompletion, balance.IPHash, balance.P2CPeakEWMA)
			ctx, cancel := context.WithCancelCause(t.Context())
			b.load.during = func(n int, _ loadtest.Scenario) {
				if n == at {
					require.Equal(t, int64(7), b.ledger.pointer.Trial, "the ledger knows that the target is not the champion's")
					cancel(orchestrator.ErrCancelled)
				}
			}
			c, err := run(t, b, ctx)
			require.NoError(t, err)
			require.Equal(t, orchestrator.Cancelled, c.Status, "cancelled in run %d: %s", at, c.Why)
			require.Equal(t, []orchestrator.Fate{"entered", "entered", "entered"}, fates(b))
			championIsBack(t, b)
			require.Zero(t, b.ledger.pointer.Proposal)
			require.False(t, b.proxies.now.Trial)
		})
	}
}

func TestWhatGoesWrongInAScreeningPutsTheChampionBack(t *testing.T) {
	for name, test := range map[string]struct {
		wrong func(b *bench)
		why   string
	}{
		"a proxy restarts":      {func(b *bench) { b.proxies.now.BootID = "boot-2" }, "restarted"},
		"rules are edited":      {func(b *bench) { b.proxies.now.Hash = "edited by hand" }, "void"},
		"the driver is gone":    {func(b *bench) { b.load.fail = func(int, loadtest.Scenario) error { return errors.New("k6 is gone") } }, "k6 is gone"},
		"the proxy refuses one": {func(b *bench) { b.proxies.refuse, b.proxies.only = errors.New("422"), 2 }, "422"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b, _ := tournament(balance.ExpectedCompletion, balance.IPHash, balance.P2CPeakEWMA)
				b.load.during = func(n int, _ loadtest.Scenario) {
					if n == 9 {
						b.proxies.mu.Lock()
						defer b.proxies.mu.Unlock()
						test.wrong(b)
					}
				}
				c, err := run(t, b, t.Context())
				require.NoError(t, err)
				require.Equal(t, orchestrator.Failed, c.Status)
				require.Contains(t, c.Why, test.why)
				championIsBack(t, b)
				require.Len(t, b.ledger.versions, 1)
			})
		})
	}
}

func TestWithoutALedgerAScreeningEndsWithTheChampion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.IPHash, balance.P2CPeakEWMA)
		b.load.during = func(n int, _ loadtest.Scenario) {
			if n == 10 {
				b.ledger.mu.Lock()
				b.ledger.down = true
				b.ledger.mu.Unlock()
			}
		}
		_, err := run(t, b, t.Context())
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 1, b.proxies.serves())
	})
}

func TestRulesOnWhichACycleWasInconclusiveAreTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.IPHash})
		tried, _ := proposes{algorithm: balance.IPHash}.Advise(t.Context(), evidence(b))
		b.ledger.add(draft(tried))
		b.ledger.judged = []advisor.Attempt{{Version: 2, Outcome: "inconclusive", Why: "p95 in steady, 12 more pairs"}}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, []orchestrator.Fate{"chosen"}, fates(b))
		require.Contains(t, fmt.Sprint(b.ledger.noted[0].Remarks), "does what v2 does, on which a cycle was inconclusive: p95 in steady, 12 more pairs")
	})
}

// The latest verdict counts, and an inconclusive one takes none back.
func TestWhichVerdictIsRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		judged  []string // newest first
		refused bool
	}{
		"never judged":                    {nil, false},
		"rolled back":                     {[]string{"rolled_back"}, true},
		"inconclusive":                    {[]string{"inconclusive"}, false},
		"rolled back, inconclusive since": {[]string{"inconclusive", "rolled_back"}, true},
		"rolled back, kept since":         {[]string{"kept", "rolled_back"}, false},
		"kept, rolled back since":         {[]string{"rolled_back", "kept"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBench(proposes{algorithm: balance.IPHash})
				tried, _ := proposes{algorithm: balance.IPHash}.Advise(t.Context(), evidence(b))
				b.ledger.add(draft(tried))
				for _, outcome := range test.judged {
					b.ledger.judged = append(b.ledger.judged, advisor.Attempt{Version: 2, Outcome: outcome, Why: "figures"})
				}
				c, err := run(t, b, t.Context())
				require.NoError(t, err)
				require.Equal(t, test.refused, c.Status == orchestrator.NoChange, c.Why)
			})
		})
	}
}

func TestARuleFileThatWasJudgedWorseIsRefusedUnlessForced(t *testing.T) {
	for _, force := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			b := newBench(nil)
			rs := rules.Default()
			rs.Rules[traffic.Spike] = rules.Rule{Algorithm: balance.IPHash, Reason: "once more"}
			b.ledger.add(ruleversions.Draft{Parent: 1, Rules: rs})
			b.ledger.judged = []advisor.Attempt{attempt(2, "p95 in burst +80%")}
			rs.Switching.MinConfidence = 0.6
			c := request()
			c.Generator, c.Proposal, c.Force = "file", string(rules.Render(rs)), force
			c, err := b.tuner.Run(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, !force, c.Status == orchestrator.NoChange)
			if !force {
				require.Contains(t, c.Why, "v2 does, which was rolled back: p95 in burst +80%")
			}
		})
	}
}

func TestAModelIsToldWhatWouldBeRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, g := tournament(balance.ExpectedCompletion, balance.P2CPeakEWMA)
		worse := rules.Default()
		worse.Rules[traffic.Spike] = rules.Rule{Algorithm: balance.IPHash, Reason: "worse"}
		b.ledger.add(ruleversions.Draft{Parent: 1, Rules: worse})
		b.ledger.judged = []advisor.Attempt{attempt(2, "p95 in the-held-out-one +80%")}
		_, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Empty(t, g.refuse(t.Context(), rules.Default()), "keeping the champion's rules is an answer")
		told := fmt.Sprint(g.refuse(t.Context(), worse))
		require.Contains(t, told, "was rolled back")
		require.NotContains(t, told, "held-out", "a verdict may name what a model must not know")
		backwards := worse
		backwards.Detection.SpikeRate = 0.1
		require.Contains(t, fmt.Sprint(g.refuse(t.Context(), backwards)), "detection.spike_rate")
	})
}

func TestScreeningFiguresNeverReachTheJudge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, _ := tournament(balance.ExpectedCompletion, balance.IPHash)
		b.load.spike[balance.ExpectedCompletion] = 50 // in the screening alone:
		b.load.during = func(int, loadtest.Scenario) {
			if len(b.ledger.versions) == 2 {
				b.load.spike[balance.ExpectedCompletion] = 400
			}
		}
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		for _, f := range c.Verdict.Findings {
			if f.Metric == verdict.P95 {
				require.Greater(t, f.Candidate, 300.0)
			}
		}
	})
}
