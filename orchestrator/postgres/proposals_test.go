package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// proposed are two proposals of a cycle, stored.
func proposed(t *testing.T, s *postgres.Store, cycle int64) []orchestrator.Proposal {
	t.Helper()
	var all []orchestrator.Proposal
	for i, a := range []balance.Algorithm{balance.P2CPeakEWMA, balance.Random} {
		rs := rules.Default()
		rs.Version, rs.Parent, rs.Origin = 2, 1, rules.OriginLocal
		rs.Rules[traffic.Spike] = rules.Rule{Algorithm: a, Reason: "p95 35% lower"}
		yaml := rules.Render(rs)
		all = append(all, orchestrator.Proposal{
			Number: i + 1, Origin: rules.OriginLocal, Author: "local", Rules: rs, YAML: string(yaml), Hash: rules.Sum(yaml), Summary: "s", Fate: orchestrator.Entered,
			Reasons: []ruleversions.Reason{{Path: "rules.SPIKE", Text: "p95 35% lower", Unsupported: []string{"35%"}}}, Changes: []string{"SPIKE"},
			Remarks: []rules.Remark{{Severity: rules.Warn, Path: "rules", Text: "t", Fix: "f"}}, Replay: steering.Replay(rs, nil),
		})
	}
	require.NoError(t, s.SaveProposals(t.Context(), cycle, all))
	return all
}

func TestProposalsComeBackAsTheyStand(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	all := proposed(t, s, c.ID)
	got, err := s.Proposals(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, all, got)

	v, err := s.Append(t.Context(), draft(1, c.ID))
	require.NoError(t, err)
	all[0].Fate, all[0].Why, all[0].Version = orchestrator.Chosen, "chosen\x00", v.Number
	all[0].Screening = &orchestrator.Screening{Place: 1, Score: -0.5, Noise: 0.2, Scenarios: []orchestrator.Screened{{Scenario: "burst", Proposal: verdict.Measurement{P95MS: 80}}}}
	all[1].Fate = orchestrator.Beaten
	require.NoError(t, s.SaveProposals(t.Context(), c.ID, all))
	got, err = s.Proposals(t.Context(), c.ID)
	require.NoError(t, err)
	all[0].Why = "chosen\uFFFD"
	require.Equal(t, all, got)

	all[1].Version = v.Number
	require.Error(t, s.SaveProposals(t.Context(), c.ID, all), "what was beaten is no version")
	none, err := s.Proposals(t.Context(), 99)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestAScreeningLeavesThePointerOnTheChampion(t *testing.T) {
	s, _, dsn := seeded(t)
	c := running(t, s)
	c.Champion = 1
	require.NoError(t, s.Save(t.Context(), c, ""))
	proposed(t, s, c.ID)
	screen := func(proposal int) (orchestrator.Pointer, error) {
		return s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveScreen, Version: 1, Proposal: proposal, Cycle: c.ID, Actor: "orchestrator", Reason: "screening"})
	}
	p, err := screen(1)
	require.NoError(t, err)
	v1, err := s.Version(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Pointer{Accepted: 1, Desired: 1, Generation: 2, Trial: c.ID, Proposal: 1, Hash: v1.Hash, Newest: 1}, p)
	require.NoError(t, s.Applied(t.Context(), 1, 2))
	p, err = s.Pointer(t.Context())
	require.NoError(t, err)
	require.Zero(t, p.Applied, "a proposal is no version")
	require.Equal(t, int64(2), p.AppliedGen)
	p, err = screen(2)
	require.NoError(t, err)
	require.Equal(t, int64(3), p.Generation, "proxies refuse other rules in the same generation")
	p, err = screen(0)
	require.NoError(t, err)
	require.Equal(t, int64(4), p.Generation)
	require.Equal(t, c.ID, p.Trial, "the champion beside them is part of the screening")

	require.ErrorIs(t, s.Activate(t.Context(), 1, "ada", "now"), orchestrator.ErrTrial)
	_, err = screen(3)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
	_, err = s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveSwap, Version: 1, Cycle: c.ID})
	require.ErrorIs(t, err, orchestrator.ErrInvalid, "there is no candidate yet")
	_, err = open(t, dsn).Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveScreen, Version: 1, Cycle: c.ID})
	require.ErrorIs(t, err, orchestrator.ErrLost)

	v, err := s.Append(t.Context(), draft(1, c.ID))
	require.NoError(t, err)
	_, err = s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveTrial, Version: v.Number, Cycle: c.ID})
	require.NoError(t, err)
	_, err = screen(1)
	require.ErrorIs(t, err, orchestrator.ErrInvalid, "a trial does not go back to its screening")
	list, err := s.Activations(t.Context(), 3, true)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 2}, []int{list[0].Proposal, list[1].Proposal, list[2].Proposal})
	list, err = s.Activations(t.Context(), 3, false)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []orchestrator.MoveKind{orchestrator.MoveTrial, orchestrator.MoveSeed}, []orchestrator.MoveKind{list[0].Kind, list[1].Kind})
}

func TestADeadInstancesScreeningIsUndone(t *testing.T) {
	s, conn, dsn := seeded(t)
	other := open(t, dsn)
	c := running(t, s)
	proposed(t, s, c.ID)
	_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveScreen, Version: 1, Proposal: 1, Cycle: c.ID})
	require.NoError(t, err)
	killSession(t, conn, c.Owner)
	var ended []orchestrator.Cycle
	require.Eventually(t, func() bool {
		ended, err = other.Reclaim(t.Context(), clean)
		require.NoError(t, err)
		return len(ended) == 1
	}, patience, 10*time.Millisecond)
	require.Contains(t, ended[0].Why, "v1 was put back in force")
	p, err := other.Pointer(t.Context())
	require.NoError(t, err)
	require.Zero(t, p.Trial)
	require.Zero(t, p.Proposal)
	require.Equal(t, int64(3), p.Generation, "proxies hear of it")
	left, err := other.Proposals(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Entered, left[0].Fate)
}

func TestARunUnderAProposalHasNoVersion(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	proposed(t, s, c.ID)
	run := orchestrator.Run{CycleID: c.ID, Scenario: "burst", Arm: orchestrator.ArmScreen, Pair: 1, Proposal: 2, Result: loadtest.Result{Driver: loadtest.Builtin, Started: time.Now()}}
	id, err := s.SaveRun(t.Context(), run)
	require.NoError(t, err)
	got, err := s.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 2, got.Proposal)
	require.Zero(t, got.Version)
	run.Version = 1
	_, err = s.SaveRun(t.Context(), run)
	require.Error(t, err)
}

func TestEveryVerdictOnEqualRulesIsRemembered(t *testing.T) {
	s, _, _ := seeded(t)
	judge := func(change func(*ruleversions.Draft), outcome orchestrator.Status) int {
		t.Helper()
		c := running(t, s)
		p, err := s.Pointer(t.Context())
		require.NoError(t, err)
		d := draft(p.Accepted, c.ID)
		if change != nil {
			change(&d)
		}
		v, err := s.Append(t.Context(), d)
		require.NoError(t, err)
		c.Champion, c.Candidate = p.Accepted, v.Number
		end(t, s, c, outcome)
		return v.Number
	}
	reworded := func(d *ruleversions.Draft) {
		rule := d.Rules.Rules[traffic.Spike]
		rule.Reason = "in other words"
		d.Rules.Rules[traffic.Spike] = rule
	}
	a := judge(nil, orchestrator.RolledBack)
	judge(func(d *ruleversions.Draft) { d.Rules.Detection.SpikeRate = 2 }, orchestrator.RolledBack) // other rules
	judge(nil, orchestrator.Failed)                                                                 // no verdict
	b := judge(reworded, orchestrator.Inconclusive)
	tried, err := s.Judged(t.Context(), draft(1, 0).Rules)
	require.NoError(t, err)
	require.Len(t, tried, 2)
	require.Equal(t, []int{b, a}, []int{tried[0].Version, tried[1].Version})
	require.Equal(t, []string{"inconclusive", "rolled_back"}, []string{tried[0].Outcome, tried[1].Outcome})
	require.Equal(t, "rolled_back", tried[1].Why)
	none, err := s.Judged(t.Context(), rules.Safe())
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestRulesThatAreInForceMakeNoSecondVersion(t *testing.T) {
	s, _, _ := seeded(t)
	d := draft(1, 0)
	d.Origin, d.Author = rules.OriginHuman, "ada"
	v, err := s.Propose(t.Context(), d, false)
	require.NoError(t, err)
	require.Equal(t, 2, v.Number)
	d.Summary = "again"
	v, err = s.Propose(t.Context(), d, false) // written against v1, which is not active any more
	require.ErrorIs(t, err, orchestrator.ErrSame)
	require.Equal(t, 2, v.Number)
	d.Parent = 2
	v, err = s.Propose(t.Context(), d, true)
	require.NoError(t, err)
	require.Equal(t, 3, v.Number)

	c := running(t, s)
	c.Champion = 3
	require.NoError(t, s.Save(t.Context(), c, ""))
	proposed(t, s, c.ID)
	_, err = s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveScreen, Version: 3, Proposal: 1, Cycle: c.ID})
	require.NoError(t, err)
	d.Parent = 3
	_, err = s.Propose(t.Context(), d, false)
	require.ErrorIs(t, err, orchestrator.ErrTrial, "something else may be in force just now")
}
