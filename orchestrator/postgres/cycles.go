package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"retune/orchestrator"
	"retune/orchestrator/postgres/queries"
)

// Cancel asks for a cycle to be cancelled; one that is still queued ends at once. ErrNotFound for an unknown one,
// ErrInvalid for one that has ended.
func (s *Store) Cancel(ctx context.Context, id int64, actor string) error {
	err := s.tx(ctx, func(q *queries.Queries) error {
		c, err := q.LockCycle(ctx, id)
		switch {
		case err != nil:
			return found(err)
		case c.FinishedAt != nil:
			return fmt.Errorf("%w: it has ended already: %s", orchestrator.ErrInvalid, c.Status)
		case c.Status == orchestrator.Queued:
			_, err := endCycle(ctx, q, id, orchestrator.Cancelled, fmt.Sprintf("cancelled by %s before it began", cmp.Or(actor, "somebody")))
			return err
		}
		return q.RequestCancel(ctx, id)
	})
	if err != nil {
		return fmt.Errorf("cancelling cycle %d: %w", id, err)
	}
	s.log.Info("cancel requested", "cycle", id, "actor", actor)
	return nil
}

// endCycle ends a cycle from outside, with its timeline.
func endCycle(ctx context.Context, q *queries.Queries, id int64, status orchestrator.Status, why string) (orchestrator.Cycle, error) {
	row, err := q.EndCycle(ctx, queries.EndCycleParams{ID: id, Status: status, Why: clean(why)})
	if err != nil {
		return orchestrator.Cycle{}, found(err)
	}
	if err := nextStep(ctx, q, id, status, why); err != nil {
		return orchestrator.Cycle{}, err
	}
	return toCycle(row)
}

// nextStep closes the open step and begins the next; an end is a step that takes no time.
func nextStep(ctx context.Context, q *queries.Queries, id int64, status orchestrator.Status, detail string) error {
	if err := q.CloseStep(ctx, id); err != nil {
		return err
	}
	return q.OpenStep(ctx, queries.OpenStepParams{CycleID: id, Name: status, Detail: clean(detail), Ended: status.Ended()})
}

// Save stores the cycle's latest copy; a change of status ends the open step and begins the next. detail is one
// sentence for the step that the cycle is in. With status Kept the candidate becomes the accepted version in the same
// transaction. ErrLost when the cycle is not this instance's any more, or has ended.
func (s *Store) Save(ctx context.Context, c orchestrator.Cycle, detail string) error {
	err := s.tx(ctx, func(q *queries.Queries) error {
		if c.Status == orchestrator.Kept { // the pointer before the cycle, as everywhere
			accept := orchestrator.Move{Kind: orchestrator.MoveAccept, Version: c.Candidate, Cycle: c.ID, Actor: "orchestrator", Reason: c.Why}
			if _, err := s.move(ctx, q, accept); err != nil {
				return err
			}
		}
		old, err := s.own(ctx, q, c.ID)
		if err != nil {
			return err
		}
		if err := updateCycle(ctx, q, c); err != nil {
			return err
		}
		if old.Status != c.Status {
			return nextStep(ctx, q, c.ID, c.Status, detail)
		}
		if detail == "" {
			return nil
		}
		return q.DetailStep(ctx, queries.DetailStepParams{CycleID: c.ID, Detail: clean(detail)})
	})
	if err != nil {
		return fmt.Errorf("saving cycle %d: %w", c.ID, err)
	}
	return nil
}

// mine reports whether a cycle runs here, under the session of now.
func (s *Store) mine(c queries.Cycle) bool {
	me := s.instance()
	return me != 0 && value(c.Owner) == me && c.FinishedAt == nil
}

// own locks a cycle that runs here, and returns it as it is stored; ErrLost when it runs elsewhere or has ended.
func (s *Store) own(ctx context.Context, q *queries.Queries, id int64) (queries.Cycle, error) {
	c, err := q.LockCycle(ctx, id)
	if err != nil {
		return c, fmt.Errorf("cycle %d: %w", id, found(err))
	}
	if !s.mine(c) {
		return c, orchestrator.ErrLost
	}
	return c, nil
}

func updateCycle(ctx context.Context, q *queries.Queries, c orchestrator.Cycle) error {
	var judged []byte
	if c.Verdict != nil {
		var err error
		if judged, err = encode(c.Verdict); err != nil {
			return fmt.Errorf("writing the verdict: %w", err)
		}
	}
	setup, err := encode(c.Setup)
	if err != nil {
		return fmt.Errorf("writing the setup: %w", err)
	}
	return q.SaveCycle(ctx, queries.SaveCycleParams{
		ID: c.ID, Status: c.Status, Ended: c.Status.Ended(), Driver: c.Driver, Scenarios: cleanAll(c.Scenarios),
		Champion: null(c.Champion), Candidate: null(c.Candidate), Evidence: cleanJSON(c.Evidence), Verdict: judged, Why: clean(c.Why), Setup: setup,
	})
}

// CancelRequested reports whether somebody asked for the cycle to be cancelled. ErrLost when it is not this
// instance's any more: then it has to stop as well. One that has ended here is not lost.
func (s *Store) CancelRequested(ctx context.Context, id int64) (bool, error) {
	c, err := s.q.Cycle(ctx, id)
	if err != nil {
		return false, fmt.Errorf("reading cycle %d: %w", id, found(err))
	}
	if me := s.instance(); me == 0 || value(c.Owner) != me {
		return c.CancelRequested, fmt.Errorf("cycle %d: %w", id, orchestrator.ErrLost)
	}
	return c.CancelRequested, nil
}

// Cycle is one cycle; ErrNotFound when there is none of that number.
func (s *Store) Cycle(ctx context.Context, id int64) (orchestrator.Cycle, error) {
	row, err := s.q.Cycle(ctx, id)
	if err != nil {
		return orchestrator.Cycle{}, fmt.Errorf("reading cycle %d: %w", id, found(err))
	}
	return toCycle(row)
}

// Cycles are the newest first: at most limit of those before a number; 0: from the newest. They carry no evidence and no cassette.
func (s *Store) Cycles(ctx context.Context, limit int, before int64) ([]orchestrator.Cycle, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.q.Cycles(ctx, queries.CyclesParams{Before: before, Lim: limited(limit)})
	if err != nil {
		return nil, fmt.Errorf("reading cycles: %w", err)
	}
	list := make([]orchestrator.Cycle, len(rows))
	for i, row := range rows {
		if list[i], err = toCycle(row); err != nil {
			return nil, err
		}
		list[i].Evidence, list[i].Replay = nil, ""
	}
	return list, nil
}

func toCycle(r queries.Cycle) (orchestrator.Cycle, error) {
	c := orchestrator.Cycle{
		ID: r.ID,
		Request: orchestrator.Request{
			Kind: r.Kind, Trigger: r.Trigger, Actor: r.Actor, Schedule: value(r.ScheduleID), Target: r.Target, Profile: r.Profile,
			Generator: r.Generator, Driver: r.Driver, Scenarios: r.Scenarios, Proposal: r.Proposal, Replay: r.Replay, Force: r.Force,
		},
		Status: r.Status, Champion: value(r.Champion), Candidate: value(r.Candidate), Evidence: r.Evidence, Why: r.Why,
		CancelRequested: r.CancelRequested, Owner: int64(value(r.Owner)),
		Created: r.CreatedAt, Started: value(r.StartedAt), Finished: value(r.FinishedAt),
	}
	if err := errors.Join(decode(r.Limits, &c.Limits), decode(r.Verdict, &c.Verdict), decode(r.Setup, &c.Setup)); err != nil {
		return orchestrator.Cycle{}, fmt.Errorf("reading what is stored of cycle %d: %w", r.ID, err)
	}
	return c, nil
}

// Steps are a cycle's timeline.
func (s *Store) Steps(ctx context.Context, cycle int64) ([]orchestrator.Step, error) {
	rows, err := s.q.Steps(ctx, cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the steps of cycle %d: %w", cycle, err)
	}
	list := make([]orchestrator.Step, len(rows))
	for i, r := range rows {
		list[i] = orchestrator.Step{Seq: r.Seq, Name: r.Name, Started: r.StartedAt, Finished: value(r.FinishedAt), Detail: r.Detail}
	}
	return list, nil
}

// SaveLive stores how a running cycle stands; only the latest is kept.
func (s *Store) SaveLive(ctx context.Context, l orchestrator.Live) error {
	b, err := encode(l)
	if err == nil {
		err = s.q.SaveLive(ctx, queries.SaveLiveParams{CycleID: l.CycleID, Live: b})
	}
	if err != nil {
		return fmt.Errorf("saving the progress of cycle %d: %w", l.CycleID, err)
	}
	return nil
}

// Live is how a cycle stands; ErrNotFound before its first progress.
func (s *Store) Live(ctx context.Context, cycle int64) (l orchestrator.Live, err error) {
	b, err := s.q.Live(ctx, cycle)
	if err = found(err); err == nil {
		err = decode(b, &l)
	}
	if err != nil {
		return l, fmt.Errorf("reading the progress of cycle %d: %w", cycle, err)
	}
	return l, nil
}
