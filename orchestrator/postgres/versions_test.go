package postgres_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/pgtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

func TestSeedMakesTheFirstVersionOnce(t *testing.T) {
	s := open(t, pgtest.DSN(t))
	_, err := s.Pointer(t.Context())
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
	_, err = s.Append(t.Context(), draft(1, 0))
	require.ErrorIs(t, err, orchestrator.ErrNotFound)

	first, err := s.Seed(t.Context(), rules.Default(), 0)
	require.NoError(t, err)
	v, err := s.Version(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Pointer{Accepted: 1, Desired: 1, Generation: 1, Hash: v.Hash, Newest: 1}, first)
	require.Equal(t, string(rules.Render(rules.Default())), v.YAML)
	require.Equal(t, rules.Sum([]byte(v.YAML)), v.Hash)
	require.Equal(t, ruleversions.StatusActive, v.Status)

	again, err := s.Seed(t.Context(), rules.Safe(), 0)
	require.NoError(t, err)
	require.Equal(t, first, again)
	list, err := s.Versions(t.Context(), 10, 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestSeveralInstancesSeedOneVersion(t *testing.T) {
	dsn := pgtest.DSN(t)
	var wg sync.WaitGroup
	for range 4 {
		s := open(t, dsn)
		wg.Go(func() {
			p, err := s.Seed(t.Context(), rules.Default(), 0)
			if err != nil || p.Accepted != 1 || p.Generation != 1 {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	wg.Wait()
}

func TestEightWritersLeaveNoGap(t *testing.T) {
	s, _, dsn := seeded(t)
	other := open(t, dsn)
	const writers, each = 8, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if _, err := []*postgres.Store{s, other}[w%2].Append(t.Context(), draft(1, 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := s.Versions(t.Context(), 1000, 0)
	require.NoError(t, err)
	require.Len(t, list, 1+writers*each)
	for i, v := range list {
		require.Equal(t, len(list)-i, v.Number)
		require.Equal(t, v.Number, v.Rules.Version, "the file carries its own number")
		require.Equal(t, rules.Sum([]byte(v.YAML)), v.Hash)
	}
	page, err := s.Versions(t.Context(), 3, 10)
	require.NoError(t, err)
	require.Equal(t, []int{9, 8, 7}, []int{page[0].Number, page[1].Number, page[2].Number})
}

func TestAVersionComesBackAsItWasDrafted(t *testing.T) {
	s, conn, _ := seeded(t)
	c := running(t, s)
	d := draft(1, c.ID)
	d.Prompt = "8b1a9953c4611296a827abf8c47804d7e6c49c6b97c4a1a5d2b0f0a1b2c3d4e5"
	v, err := s.Append(t.Context(), d)
	require.NoError(t, err)
	want := d.Rules
	want.Version, want.Parent, want.Origin = 2, 1, rules.OriginLocal
	require.Empty(t, cmp.Diff(want, v.Rules))
	require.Empty(t, cmp.Diff(d.Reasons, v.Reasons))
	require.Equal(t, []any{2, 1, rules.OriginLocal, "local", d.Summary, c.ID, d.Prompt},
		[]any{v.Number, v.Parent, v.Origin, v.Author, v.Summary, v.CycleID, v.Prompt})

	// The rows say what the file says.
	for _, state := range traffic.States() {
		var algorithm balance.Algorithm
		var reason string
		var decay int64
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT algorithm, reason, coalesce((params->>'decay')::bigint, 0)
			FROM rule_entry WHERE version = 2 AND state = $1`, string(state)).Scan(&algorithm, &reason, &decay))
		rule := v.Rules.Rules[state]
		require.Equal(t, []any{rule.Algorithm, rule.Reason, int64(rule.Params.Decay)}, []any{algorithm, reason, decay})
	}
	_, err = s.Version(t.Context(), 3)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
}

func TestADraftThatIsRefusedChangesNothing(t *testing.T) {
	s, _, _ := seeded(t)
	invalid := draft(1, 0)
	invalid.Rules.Switching.MinConfidence = 7
	_, err := s.Append(t.Context(), invalid)
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
	require.ErrorContains(t, err, "min_confidence")
	_, err = s.Append(t.Context(), draft(7, 0))
	require.ErrorIs(t, err, orchestrator.ErrStale)
	_, err = s.Append(t.Context(), draft(1, 99))
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
	next, err := s.Append(t.Context(), draft(1, 0))
	require.NoError(t, err)
	require.Equal(t, 2, next.Number, "a refused draft takes no number")
}

func TestVersionsAreAppendOnly(t *testing.T) {
	s, conn, _ := seeded(t)
	_, err := s.Append(t.Context(), draft(1, 0))
	require.NoError(t, err)
	for _, table := range []string{"rule_version", "rule_entry", "rule_reason"} {
		for _, sql := range []string{"UPDATE " + table + " SET version = version", "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			_, err := conn.Exec(t.Context(), sql)
			require.ErrorContains(t, err, "append-only", sql)
		}
	}
}

func TestProposeMakesAHumansRulesActive(t *testing.T) {
	s, _, _ := seeded(t)
	d := draft(1, 0)
	d.Origin, d.Author = rules.OriginHuman, "ada"
	v, err := s.Propose(t.Context(), d, false)
	require.NoError(t, err)
	require.Equal(t, ruleversions.StatusActive, v.Status)
	d.Rules.Detection.SpikeRate = 2 // else they would be in force already
	_, err = s.Propose(t.Context(), d, false)
	require.ErrorIs(t, err, orchestrator.ErrStale)

	onTrial(t, s)
	before, err := s.Versions(t.Context(), 100, 0)
	require.NoError(t, err)
	d.Parent = v.Number
	_, err = s.Propose(t.Context(), d, false)
	require.ErrorIs(t, err, orchestrator.ErrTrial)
	after, err := s.Versions(t.Context(), 100, 0)
	require.NoError(t, err)
	require.Len(t, after, len(before), "a refused proposal stores no version")
}

func TestStatusFollowsPointerAndCycle(t *testing.T) {
	for _, test := range []struct {
		outcome orchestrator.Status
		want    ruleversions.Status
	}{
		{orchestrator.RolledBack, ruleversions.StatusRolledBack},
		{orchestrator.Inconclusive, ruleversions.StatusInconclusive},
		{orchestrator.Failed, ruleversions.StatusUnproved},
		{orchestrator.Interrupted, ruleversions.StatusUnproved},
		{orchestrator.Kept, ruleversions.StatusActive},
	} {
		t.Run(string(test.outcome), func(t *testing.T) {
			s, _, _ := seeded(t)
			status := func(n int) ruleversions.Status {
				v, err := s.Version(t.Context(), n)
				require.NoError(t, err)
				return v.Status
			}
			c, v := onTrial(t, s)
			require.Equal(t, ruleversions.StatusOnTrial, status(v.Number))
			require.Equal(t, ruleversions.StatusActive, status(1))
			if test.outcome != orchestrator.Kept {
				_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveRollback, Cycle: c.ID})
				require.NoError(t, err)
			}
			end(t, s, c, test.outcome)
			require.Equal(t, test.want, status(v.Number))
			if test.outcome == orchestrator.Kept {
				require.Equal(t, ruleversions.StatusRetired, status(1))
				require.NoError(t, s.Activate(t.Context(), 1, "ada", "back"))
				require.Equal(t, ruleversions.StatusKept, status(v.Number))
			}
		})
	}
}

func TestAttemptsLeaveOutWhatIsRefusedToday(t *testing.T) {
	s, conn, _ := seeded(t)
	c, v := onTrial(t, s)
	_, err := conn.Exec(t.Context(), `INSERT INTO rule_version (version, parent, origin, author, yaml, sha256, summary, prompt_sha256, cycle_id)
		SELECT version + 1, version, origin, author, 'rules: {}', sha256, summary, prompt_sha256, cycle_id FROM rule_version WHERE version = $1`, v.Number)
	require.NoError(t, err)
	end(t, s, c, orchestrator.RolledBack)
	list, err := s.Attempts(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, v.Number, list[0].Version)
}

func TestAttemptsTellWhatWasTriedAndHowItWasJudged(t *testing.T) {
	s, _, _ := seeded(t)
	c, v := onTrial(t, s)
	none, err := s.Attempts(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, none, "not judged yet")
	_, err = s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveRollback, Cycle: c.ID})
	require.NoError(t, err)
	c.Status, c.Why = orchestrator.RolledBack, "rolled back: p95 in burst 31% higher"
	c.Verdict = &verdict.Verdict{Outcome: verdict.RolledBack, Reason: c.Why}
	require.NoError(t, s.Save(t.Context(), c, c.Why))
	list, err := s.Attempts(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, v.Number, list[0].Version)
	require.Equal(t, "rolled_back", list[0].Outcome)
	require.Equal(t, c.Why, list[0].Why)
	require.Equal(t, []string{"SPIKE: LEAST_CONNECTIONS → P2C_PEAK_EWMA", "SPIKE: decay default → 5s"}, list[0].Changes)
}

// What a generator is told of an attempt reveals nothing of what is held out, and no error's names and addresses.
func TestAttemptsTellNothingOfWhatIsHeldOut(t *testing.T) {
	finding := verdict.Finding{Scenario: "sawtooth", HoldOut: true, Metric: verdict.P95, Champion: 412, Candidate: 1236, Effect: 2, Limit: 0.15, Outcome: verdict.RolledBack, Pairs: 3}
	for _, ended := range []struct {
		status  orchestrator.Status
		why     string
		verdict *verdict.Verdict
		want    string
	}{
		{orchestrator.RolledBack, "rolled back: p95 in sawtooth 412 ms → 1236 ms",
			&verdict.Verdict{Outcome: verdict.RolledBack, Reason: "rolled back: p95 in sawtooth 412 ms → 1236 ms", Findings: []verdict.Finding{finding}},
			"rolled back: by a scenario that is held out"},
		{orchestrator.Failed, "scenario sawtooth gave no evidence twice: backend server-1 could not be revived: Put http://10.0.0.1/control", nil, "the trial ended without a verdict"},
	} {
		s, _, _ := seeded(t)
		c, _ := onTrial(t, s)
		_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveRollback, Cycle: c.ID})
		require.NoError(t, err)
		c.Status, c.Why, c.Verdict = ended.status, ended.why, ended.verdict
		require.NoError(t, s.Save(t.Context(), c, c.Why))
		list, err := s.Attempts(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, ended.want, list[0].Why)
		read, err := s.Cycle(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, ended.why, read.Why, "people are told")
	}
}
