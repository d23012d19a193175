package postgres_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/postgres"
)

// at is the part of a pointer that moves are about.
type at struct {
	accepted, desired int
	generation, trial int64
}

func pointer(t *testing.T, s *postgres.Store) at {
	t.Helper()
	p, err := s.Pointer(t.Context())
	require.NoError(t, err)
	v, err := s.Version(t.Context(), p.Desired)
	require.NoError(t, err)
	require.Equal(t, v.Hash, p.Hash, "the pointer's hash is the desired version's")
	return at{p.Accepted, p.Desired, p.Generation, p.Trial}
}

func TestATrialSwapsAndIsAccepted(t *testing.T) {
	s, _, _ := seeded(t)
	c, v := onTrial(t, s)
	require.Equal(t, at{1, 2, 2, c.ID}, pointer(t, s))
	move := func(kind orchestrator.MoveKind, version int) {
		t.Helper()
		_, err := s.Move(t.Context(), orchestrator.Move{Kind: kind, Version: version, Cycle: c.ID, Actor: "orchestrator", Reason: "because"})
		require.NoError(t, err)
	}
	move(orchestrator.MoveSwap, v.Number) // runs already
	require.Equal(t, at{1, 2, 2, c.ID}, pointer(t, s))
	move(orchestrator.MoveSwap, 1)
	require.Equal(t, at{1, 1, 3, c.ID}, pointer(t, s))
	move(orchestrator.MoveSwap, v.Number)
	require.Equal(t, at{1, 2, 4, c.ID}, pointer(t, s))
	move(orchestrator.MoveAccept, v.Number)
	require.Equal(t, at{2, 2, 5, 0}, pointer(t, s))

	list, err := s.Activations(t.Context(), 10, true)
	require.NoError(t, err)
	var kinds []orchestrator.MoveKind
	for i, a := range list {
		require.Equal(t, int64(5-i), a.Generation)
		kinds = append(kinds, a.Kind)
	}
	require.Equal(t, []orchestrator.MoveKind{"accept", "swap", "swap", "trial", "seed"}, kinds)
	require.Equal(t, []int{2, 2, 1, 2, 1}, []int{list[0].Version, list[1].Version, list[2].Version, list[3].Version, list[4].Version})
	require.Equal(t, []int{2, 1, 2, 1, 0}, []int{list[0].Previous, list[1].Previous, list[2].Previous, list[3].Previous, list[4].Previous})
	require.Equal(t, "because", list[0].Reason)
}

func TestSavingACycleAsKeptAcceptsItsCandidate(t *testing.T) {
	s, _, _ := seeded(t)
	c, v := onTrial(t, s)
	stranger := c
	stranger.Status, stranger.Candidate = orchestrator.Kept, 1
	require.ErrorIs(t, s.Save(t.Context(), stranger, "kept"), orchestrator.ErrInvalid)
	require.Equal(t, at{1, 2, 2, c.ID}, pointer(t, s), "a refused save moves nothing")

	end(t, s, c, orchestrator.Kept)
	require.Equal(t, at{2, 2, 3, 0}, pointer(t, s))
	list, err := s.Activations(t.Context(), 1, true)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Move{Kind: orchestrator.MoveAccept, Version: v.Number, Cycle: c.ID, Actor: "orchestrator", Reason: "kept"}, list[0].Move)
	c.Status = orchestrator.Kept
	require.ErrorIs(t, s.Save(t.Context(), c, "kept"), orchestrator.ErrLost)
}

func TestARollbackPutsTheChampionBackFromEitherSide(t *testing.T) {
	for _, desired := range []int{1, 2} {
		s, _, _ := seeded(t)
		c, _ := onTrial(t, s)
		_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveSwap, Version: desired, Cycle: c.ID})
		require.NoError(t, err)
		before := pointer(t, s)
		rollback := orchestrator.Move{Kind: orchestrator.MoveRollback, Version: 1, Cycle: c.ID, Reason: "worse"}
		p, err := s.Move(t.Context(), rollback)
		require.NoError(t, err)
		require.Equal(t, at{1, 1, before.generation + 1, 0}, pointer(t, s))
		again, err := s.Move(t.Context(), rollback)
		require.NoError(t, err, "a rollback without a trial is no error")
		require.Equal(t, p, again)
	}
}

func TestWhoMayMove(t *testing.T) {
	s, _, dsn := seeded(t)
	other := open(t, dsn)
	c, v := onTrial(t, s)
	before := pointer(t, s)
	for _, test := range []struct {
		name string
		by   *postgres.Store
		move orchestrator.Move
		want error
	}{
		{"a human during a trial", s, orchestrator.Move{Kind: orchestrator.MoveManual, Version: 1}, orchestrator.ErrTrial},
		{"another instance", other, orchestrator.Move{Kind: orchestrator.MoveAccept, Version: v.Number, Cycle: c.ID}, orchestrator.ErrLost},
		{"another instance's rollback", other, orchestrator.Move{Kind: orchestrator.MoveRollback, Cycle: c.ID}, orchestrator.ErrLost},
		{"a crash rollback of a cycle that runs", other, orchestrator.Move{Kind: orchestrator.MoveCrashRollback, Cycle: c.ID}, orchestrator.ErrLost},
		{"a cycle that is not there", s, orchestrator.Move{Kind: orchestrator.MoveAccept, Version: v.Number, Cycle: 99}, orchestrator.ErrNotFound},
		{"no cycle", s, orchestrator.Move{Kind: orchestrator.MoveTrial, Version: v.Number}, orchestrator.ErrNotFound},
		{"a second trial in the same cycle", s, orchestrator.Move{Kind: orchestrator.MoveTrial, Version: 1, Cycle: c.ID}, orchestrator.ErrInvalid},
		{"accepting the champion", s, orchestrator.Move{Kind: orchestrator.MoveAccept, Version: 1, Cycle: c.ID}, orchestrator.ErrInvalid},
		{"swapping to a stranger", s, orchestrator.Move{Kind: orchestrator.MoveSwap, Version: 3, Cycle: c.ID}, orchestrator.ErrInvalid},
		{"an unknown kind", s, orchestrator.Move{Kind: "leap", Version: 1, Cycle: c.ID}, orchestrator.ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.by.Move(t.Context(), test.move)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, before, pointer(t, s), "a refused move changes nothing")
		})
	}
	end(t, s, c, orchestrator.Failed)
	_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveAccept, Version: v.Number, Cycle: c.ID})
	require.ErrorIs(t, err, orchestrator.ErrLost, "a cycle that has ended accepts nothing")
}

func TestATrialNeedsTheChampionThatWasMeasured(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	v, err := s.Append(t.Context(), draft(1, c.ID))
	require.NoError(t, err)
	other, err := s.Append(t.Context(), draft(1, 0))
	require.NoError(t, err)
	c.Champion, c.Status = 1, orchestrator.Baseline
	require.NoError(t, s.Save(t.Context(), c, ""))
	require.NoError(t, s.Activate(t.Context(), other.Number, "ada", "meanwhile"))
	before := pointer(t, s)
	trial := orchestrator.Move{Kind: orchestrator.MoveTrial, Version: v.Number, Cycle: c.ID}
	_, err = s.Move(t.Context(), trial)
	require.ErrorIs(t, err, orchestrator.ErrStale)
	require.Equal(t, before, pointer(t, s))
	require.NoError(t, s.Activate(t.Context(), 1, "ada", "back"))
	_, err = s.Move(t.Context(), trial)
	require.NoError(t, err)
}

func TestAnotherCyclesTrialIsNotTouched(t *testing.T) {
	s, _, _ := seeded(t)
	onTrial(t, s)
	before := pointer(t, s)
	r := request()
	r.Target = "elsewhere"
	_, err := s.Enqueue(t.Context(), r)
	require.NoError(t, err)
	c, ok, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	for _, kind := range []orchestrator.MoveKind{orchestrator.MoveTrial, orchestrator.MoveSwap, orchestrator.MoveAccept, orchestrator.MoveRollback} {
		_, err := s.Move(t.Context(), orchestrator.Move{Kind: kind, Version: 2, Cycle: c.ID})
		require.ErrorIs(t, err, orchestrator.ErrTrial, string(kind))
	}
	require.Equal(t, before, pointer(t, s))
}

func TestActivateMovesByHand(t *testing.T) {
	s, _, _ := seeded(t)
	_, err := s.Append(t.Context(), draft(1, 0))
	require.NoError(t, err)
	require.NoError(t, s.Activate(t.Context(), 2, "ada", "I like it"))
	require.Equal(t, at{2, 2, 2, 0}, pointer(t, s))
	require.NoError(t, s.Activate(t.Context(), 2, "ada", "still"))
	require.Equal(t, at{2, 2, 2, 0}, pointer(t, s), "what is active already is no move")
	require.NoError(t, s.Activate(t.Context(), 1, "ada", "back"))
	require.Equal(t, at{1, 1, 3, 0}, pointer(t, s))
	for _, unknown := range []int{9, 0, -1, math.MaxInt} {
		require.ErrorIs(t, s.Activate(t.Context(), unknown, "ada", "?"), orchestrator.ErrNotFound)
		_, err := s.Version(t.Context(), unknown)
		require.ErrorIs(t, err, orchestrator.ErrNotFound)
	}
}

func TestAppliedIsForTheGenerationOfNow(t *testing.T) {
	s, _, _ := seeded(t)
	require.NoError(t, s.Applied(t.Context(), 1, 1))
	onTrial(t, s)
	require.NoError(t, s.Applied(t.Context(), 1, 1), "an order that came too late is let go")
	p, err := s.Pointer(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{1, int64(1)}, []any{p.Applied, p.AppliedGen})
	require.NoError(t, s.Applied(t.Context(), 2, 2))
	p, err = s.Pointer(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{2, int64(2)}, []any{p.Applied, p.AppliedGen})
	list, err := s.Activations(t.Context(), 2, true)
	require.NoError(t, err)
	require.False(t, list[0].Applied.IsZero())
	require.False(t, list[1].Applied.IsZero())
}

func TestThePointerCannotSayWhatMakesNoSense(t *testing.T) {
	s, conn, _ := seeded(t)
	_, err := s.Append(t.Context(), draft(1, 0))
	require.NoError(t, err)
	for _, sql := range []string{
		"UPDATE rule_pointer SET desired = 2",                                       // without a trial
		"UPDATE rule_pointer SET candidate = 2",                                     // of no cycle
		"UPDATE rule_pointer SET accepted = 9, desired = 9",                         // no such version
		"UPDATE rule_pointer SET applied_gen = generation + 1",                      // before it was ordered
		"INSERT INTO rule_pointer (accepted, desired, generation) VALUES (1, 1, 1)", // a second one
		"INSERT INTO rule_pointer (singleton, accepted, desired, generation) VALUES (false, 1, 1, 1)",
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "violates", sql)
	}
}

// A candidate that was never judged is never kept, wherever the process dies.
func TestADeadCyclesTrialIsUndone(t *testing.T) {
	step := func(kind orchestrator.MoveKind, version int) func(*testing.T, *postgres.Store, orchestrator.Cycle) {
		return func(t *testing.T, s *postgres.Store, c orchestrator.Cycle) {
			_, err := s.Move(t.Context(), orchestrator.Move{Kind: kind, Version: version, Cycle: c.ID})
			require.NoError(t, err)
		}
	}
	applied := func(t *testing.T, s *postgres.Store, _ orchestrator.Cycle) {
		require.NoError(t, s.Applied(t.Context(), 2, 2))
	}
	status := func(to orchestrator.Status) func(*testing.T, *postgres.Store, orchestrator.Cycle) {
		return func(t *testing.T, s *postgres.Store, c orchestrator.Cycle) {
			c.Status = to
			require.NoError(t, s.Save(t.Context(), c, ""))
		}
	}
	type steps []func(*testing.T, *postgres.Store, orchestrator.Cycle)
	for _, test := range []struct {
		name string
		do   steps
		want at // generation aside
	}{
		{"on trial, before the proxy was told", nil, at{1, 1, 0, 0}},
		{"on trial, the proxy confirmed it", steps{applied}, at{1, 1, 0, 0}},
		{"settling", steps{applied, status(orchestrator.Settling)}, at{1, 1, 0, 0}},
		{"verifying, the champion's half", steps{status(orchestrator.Verifying), step(orchestrator.MoveSwap, 1)}, at{1, 1, 0, 0}},
		{"verifying, the candidate's half", steps{status(orchestrator.Verifying), step(orchestrator.MoveSwap, 1), step(orchestrator.MoveSwap, 2)}, at{1, 1, 0, 0}},
		{"rolled back, before the end was saved", steps{step(orchestrator.MoveRollback, 1)}, at{1, 1, 0, 0}},
		{"accepted, before the end was saved", steps{step(orchestrator.MoveAccept, 2)}, at{2, 2, 0, 0}},
		{"ended with the trial still on", steps{status(orchestrator.Failed)}, at{1, 1, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, conn, dsn := seeded(t)
			c, _ := onTrial(t, s)
			for _, do := range test.do {
				do(t, s, c)
			}
			killSession(t, conn, c.Owner)
			heir := open(t, dsn)
			_, err := heir.Reclaim(t.Context(), clean)
			require.NoError(t, err)
			got := pointer(t, heir)
			got.generation = 0
			require.Equal(t, test.want, got)
			after, err := heir.Cycle(t.Context(), c.ID)
			require.NoError(t, err)
			require.True(t, after.Status.Ended())
			generation := pointer(t, heir).generation
			_, err = heir.Reclaim(t.Context(), clean)
			require.NoError(t, err)
			require.Equal(t, generation, pointer(t, heir).generation, "once is enough")
		})
	}
}
