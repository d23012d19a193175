package postgres

import (
	"context"
	"errors"
	"fmt"

	"retune/orchestrator"
	"retune/orchestrator/postgres/queries"
)

// Pointer says which version is in force; ErrNotFound before the first version.
func (s *Store) Pointer(ctx context.Context) (orchestrator.Pointer, error) {
	p, err := s.q.Pointer(ctx)
	if err != nil {
		return orchestrator.Pointer{}, fmt.Errorf("reading which version is in force: %w", found(err))
	}
	return toPointer(p), nil
}

func toPointer(p queries.PointerRow) orchestrator.Pointer {
	return orchestrator.Pointer{
		Accepted: p.Accepted, Desired: p.Desired, Generation: p.Generation, Trial: value(p.TrialCycle), Proposal: value(p.Proposal),
		Applied: value(p.Applied), AppliedGen: p.AppliedGen, Hash: p.Sha256, Newest: p.Newest,
	}
}

// Move changes the pointer and records it, in one transaction. What changes nothing is no change: the generation
// stays. Two take a new one although the same version may go on: an accept, whose order is not a trial any more, so that
// the proxies have to hear of it; and a crash rollback, after which proxies refuse what the instance that is gone, or
// only was thought to be, still sends them.
//
// ErrTrial when another cycle's trial is on, ErrLost when m.Cycle is not running here, ErrNotFound for an unknown
// version, ErrStale for a trial against another champion than the cycle's, ErrInvalid for a move that makes no sense now.
func (s *Store) Move(ctx context.Context, m orchestrator.Move) (p orchestrator.Pointer, err error) {
	err = s.tx(ctx, func(q *queries.Queries) (err error) {
		p, err = s.move(ctx, q, m)
		return err
	})
	if err != nil {
		return orchestrator.Pointer{}, fmt.Errorf("moving to v%d (%s): %w", m.Version, m.Kind, err)
	}
	return p, nil
}

// Activate makes an existing version active by hand: a rollback, or a roll forward. ErrTrial during a trial.
func (s *Store) Activate(ctx context.Context, version int, actor, reason string) error {
	_, err := s.Move(ctx, orchestrator.Move{Kind: orchestrator.MoveManual, Version: version, Actor: actor, Reason: reason})
	return err
}

// brief refuses what would make the history, which is for good, unreadable. Lengths are in bytes.
func brief(name, text string) error {
	const nameMost, textMost = 200, 8 << 10
	if len(name) > nameMost || len(text) > textMost {
		return fmt.Errorf("%w: a name may have %d bytes and a reason or summary %d; these have %d and %d", orchestrator.ErrInvalid, nameMost, textMost, len(name), len(text))
	}
	return nil
}

// force is what the pointer says, without its counters.
type force struct {
	accepted, desired int
	trial             int64 // the cycle on trial; 0: none
	candidate         int   // of the trial; 0: its proposals are screened
	proposal          int   // that is screened now; 0: none
}

// tries says what a trial is about.
func (f force) tries() string {
	if f.candidate == 0 {
		return fmt.Sprintf("cycle %d screens its proposals", f.trial)
	}
	return fmt.Sprintf("cycle %d tries v%d", f.trial, f.candidate)
}

func (s *Store) move(ctx context.Context, q *queries.Queries, m orchestrator.Move) (orchestrator.Pointer, error) {
	if err := brief(m.Actor, m.Reason); err != nil {
		return orchestrator.Pointer{}, err
	}
	row, err := q.LockPointer(ctx)
	if err != nil {
		return orchestrator.Pointer{}, found(err)
	}
	now := force{row.Accepted, row.Desired, value(row.TrialCycle), value(row.Candidate), value(row.Proposal)}
	if err := s.mayMove(ctx, q, now, m); err != nil {
		return orchestrator.Pointer{}, err
	}
	next, err := now.after(m)
	if err != nil {
		return orchestrator.Pointer{}, err
	}
	if next == now && m.Kind != orchestrator.MoveCrashRollback {
		return toPointer(queries.PointerRow(row)), nil
	}
	if err := record(ctx, q, now, next, row.Generation+1, m); err != nil {
		return orchestrator.Pointer{}, err
	}
	moved, err := q.Pointer(ctx)
	return toPointer(moved), err
}

// record writes the pointer and its history.
func record(ctx context.Context, q *queries.Queries, before, after force, generation int64, m orchestrator.Move) error {
	err := q.UpdatePointer(ctx, queries.UpdatePointerParams{
		Accepted: after.accepted, Desired: after.desired, Generation: generation,
		TrialCycle: null(after.trial), Candidate: null(after.candidate), Proposal: null(after.proposal),
	})
	switch {
	case codeOf(err) == foreignKeyViolation && m.Proposal != 0:
		return fmt.Errorf("%w: cycle %d has no proposal %d", orchestrator.ErrNotFound, m.Cycle, m.Proposal)
	case codeOf(err) == foreignKeyViolation:
		return fmt.Errorf("%w: there is no v%d", orchestrator.ErrNotFound, m.Version)
	}
	if err != nil {
		return err
	}
	return q.InsertActivation(ctx, queries.InsertActivationParams{
		Generation: generation, Version: after.desired, Previous: &before.desired, Kind: m.Kind,
		CycleID: null(m.Cycle), Proposal: null(after.proposal), Actor: clean(m.Actor), Reason: clean(m.Reason),
	})
}

// mayMove says who may: a human when no trial is on, a cycle while it runs here.
func (s *Store) mayMove(ctx context.Context, q *queries.Queries, now force, m orchestrator.Move) error {
	if m.Kind == orchestrator.MoveManual {
		if !numbered(m.Version) {
			return fmt.Errorf("%w: there is no v%d", orchestrator.ErrNotFound, m.Version)
		}
		if now.trial != 0 {
			return fmt.Errorf("%w: %s", orchestrator.ErrTrial, now.tries())
		}
		return nil
	}
	c, err := s.own(ctx, q, m.Cycle)
	orphan := m.Kind == orchestrator.MoveCrashRollback && c.FinishedAt != nil
	if err != nil && !orphan {
		return err
	}
	if now.trial != 0 && now.trial != m.Cycle {
		return fmt.Errorf("%w: %s", orchestrator.ErrTrial, now.tries())
	}
	begins := m.Kind == orchestrator.MoveTrial || m.Kind == orchestrator.MoveScreen
	if was := value(c.Champion); begins && was != 0 && was != now.accepted {
		return fmt.Errorf("%w: cycle %d measured v%d, v%d is in force now", orchestrator.ErrStale, m.Cycle, was, now.accepted)
	}
	return nil
}

// after is where a move leads.
func (f force) after(m orchestrator.Move) (force, error) {
	switch m.Kind {
	case orchestrator.MoveManual:
		return force{accepted: m.Version, desired: m.Version}, nil
	case orchestrator.MoveRollback, orchestrator.MoveCrashRollback:
		return force{accepted: f.accepted, desired: f.accepted}, nil
	case orchestrator.MoveScreen:
		if f.candidate != 0 {
			return f, fmt.Errorf("%w: %s, which is past the screening", orchestrator.ErrInvalid, f.tries())
		}
		return force{accepted: f.accepted, desired: f.accepted, trial: m.Cycle, proposal: m.Proposal}, nil
	case orchestrator.MoveTrial:
		if m.Version == f.accepted {
			return f, fmt.Errorf("%w: v%d is the champion, a trial needs another version", orchestrator.ErrInvalid, m.Version)
		}
		return force{accepted: f.accepted, desired: m.Version, trial: m.Cycle, candidate: m.Version}, nil
	case orchestrator.MoveSwap:
		if f.candidate == 0 || (m.Version != f.accepted && m.Version != f.candidate) {
			return f, fmt.Errorf("%w: a swap goes between champion v%d and the candidate of a trial", orchestrator.ErrInvalid, f.accepted)
		}
		f.desired = m.Version
		return f, nil
	case orchestrator.MoveAccept:
		if f.trial == 0 && m.Version == f.accepted {
			return f, nil
		}
		if f.trial == 0 || m.Version != f.candidate {
			return f, fmt.Errorf("%w: v%d is not on trial", orchestrator.ErrInvalid, m.Version)
		}
		return force{accepted: m.Version, desired: m.Version}, nil
	}
	return f, fmt.Errorf("%w: unknown kind of move %q", orchestrator.ErrInvalid, m.Kind)
}

// Applied records that the target confirmed a generation. One that has been moved on from is let go.
func (s *Store) Applied(ctx context.Context, version int, generation int64) error {
	err := s.tx(ctx, func(q *queries.Queries) error {
		n, err := q.PointerApplied(ctx, queries.PointerAppliedParams{Version: version, Generation: generation})
		if err != nil || n == 0 {
			return err
		}
		return q.ActivationApplied(ctx, generation)
	})
	if err != nil {
		return fmt.Errorf("recording that v%d is applied: %w", version, err)
	}
	return nil
}

// Activations are the pointer's last moves, newest first; with turns those within trials too.
func (s *Store) Activations(ctx context.Context, limit int, turns bool) ([]orchestrator.Activation, error) {
	rows, err := s.q.Activations(ctx, queries.ActivationsParams{Turns: turns, Lim: limited(limit)})
	if err != nil {
		return nil, fmt.Errorf("reading the pointer's history: %w", err)
	}
	list := make([]orchestrator.Activation, len(rows))
	for i, a := range rows {
		list[i] = orchestrator.Activation{
			Move: orchestrator.Move{Kind: a.Kind, Version: a.Version, Proposal: value(a.Proposal), Cycle: value(a.CycleID),
				Actor: a.Actor, Reason: a.Reason},
			Generation: a.Generation, Previous: value(a.Previous), Requested: a.RequestedAt, Applied: value(a.AppliedAt),
		}
	}
	return list, nil
}

// crashRollback undoes the trial of a cycle whose process is gone. Before the first version, and in another's trial,
// nothing happens.
func (s *Store) crashRollback(ctx context.Context, q *queries.Queries, cycle int64) error {
	m := orchestrator.Move{Kind: orchestrator.MoveCrashRollback, Cycle: cycle, Actor: "retune", Reason: "its process ended before a verdict"}
	_, err := s.move(ctx, q, m)
	if errors.Is(err, orchestrator.ErrNotFound) || errors.Is(err, orchestrator.ErrTrial) {
		return nil
	}
	return err
}
