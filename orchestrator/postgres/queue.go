package postgres

import (
	"context"
	"errors"
	"fmt"

	"retune/orchestrator"
	"retune/orchestrator/postgres/queries"
)

// Claim takes the oldest queued cycle for this instance; false when there is none, or one is running on its target.
func (s *Store) Claim(ctx context.Context) (c orchestrator.Cycle, claimed bool, err error) {
	me := s.instance()
	if me == 0 {
		return c, false, errNoSession
	}
	err = s.tx(ctx, func(q *queries.Queries) error {
		row, err := q.ClaimCycle(ctx, me)
		if err != nil {
			return found(err)
		}
		if err := nextStep(ctx, q, row.ID, row.Status, ""); err != nil {
			return err
		}
		c, err = toCycle(row)
		return err
	})
	switch {
	case err == nil:
		return c, true, nil
	case errors.Is(err, orchestrator.ErrNotFound), codeOf(err) == uniqueViolation: // another instance was faster
		return orchestrator.Cycle{}, false, nil
	}
	return orchestrator.Cycle{}, false, fmt.Errorf("claiming a cycle: %w", err)
}

// Reclaim ends the cycles of instances that are gone, as interrupted, or as cancelled where that was asked for. In one
// transaction it takes them over and undoes their trials; then it calls cleanUp, while their target is still taken, so
// that nothing else runs on it; then it ends them, saying so where cleanUp failed. If that goes wrong in between, the next
// call begins anew. It returns those that it ended. A trial that outlived its cycle is undone as well.
//
// Call it only while this instance runs no cycle: one that it owns all the same is ended too. It was taken over before, or
// claimed in a transaction whose answer did not come.
func (s *Store) Reclaim(ctx context.Context, cleanUp func(context.Context, []orchestrator.Cycle) error) ([]orchestrator.Cycle, error) {
	if due, err := s.reclaimable(ctx); err != nil || !due {
		return nil, err
	}
	var taken []orchestrator.Cycle
	err := s.tx(ctx, func(q *queries.Queries) (err error) {
		taken, err = s.takeOver(ctx, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking over the cycles of instances that are gone: %w", err)
	}
	if len(taken) == 0 {
		return nil, nil
	}
	unclean := cleanUp(ctx, taken)
	var ended []orchestrator.Cycle
	err = s.tx(ctx, func(q *queries.Queries) (err error) {
		ended, err = s.endTaken(ctx, q, taken, unclean)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ending the cycles of instances that are gone: %w", err)
	}
	return ended, nil
}

// reclaimable looks without a lock, as most times there is nothing to do. It ends the sessions of those that keep theirs
// but are not alive: their cycles are found at the next look.
func (s *Store) reclaimable(ctx context.Context) (bool, error) {
	patience := silence.Seconds()
	silent, err := s.q.EndSilentSessions(ctx, queries.EndSilentSessionsParams{Me: null(s.instance()), Silence: &patience})
	if err != nil {
		return false, fmt.Errorf("looking for instances that do not speak: %w", err)
	}
	if len(silent) > 0 {
		s.log.Warn("an instance that owns a cycle says nothing; its connections were ended", "instance", value(silent[0].Instance), "for", silence)
	}
	due, err := s.q.DeadCycles(ctx, null(s.instance()))
	if err != nil {
		return false, fmt.Errorf("looking for cycles of instances that are gone: %w", err)
	}
	stray, err := s.q.StrayTrial(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for a trial without a cycle: %w", err)
	}
	return stray || len(due) > 0, nil
}

// takeOver makes the cycles of instances that are gone this one's, as they stood, and undoes their trials.
func (s *Store) takeOver(ctx context.Context, q *queries.Queries) (taken []orchestrator.Cycle, err error) {
	me := s.instance()
	if me == 0 {
		return nil, errNoSession
	}
	p, err := q.LockPointer(ctx)
	if err != nil && !errors.Is(found(err), orchestrator.ErrNotFound) {
		return nil, err
	}
	due, err := q.DeadCycles(ctx, &me) // again: under the lock nobody else takes them over
	if err != nil {
		return nil, err
	}
	for _, id := range due {
		old, err := q.LockCycle(ctx, id)
		if err != nil {
			return nil, err
		}
		if old.FinishedAt != nil { // by its owner, in this moment
			continue
		}
		why := s.goneWhy(old, value(p.TrialCycle) == id, p.Accepted)
		row, err := q.AdoptCycle(ctx, queries.AdoptCycleParams{ID: id, Owner: me, Why: why})
		if err != nil {
			return nil, err
		}
		c, err := toCycle(row)
		if err := errors.Join(err, s.crashRollback(ctx, q, id)); err != nil {
			return nil, err
		}
		taken = append(taken, c)
	}
	stray, err := q.StrayTrial(ctx)
	if err != nil || !stray {
		return taken, err
	}
	return taken, s.crashRollback(ctx, q, value(p.TrialCycle))
}

// endTaken ends the cycles that were taken over. cleanUp's error is part of why.
func (s *Store) endTaken(ctx context.Context, q *queries.Queries, taken []orchestrator.Cycle, unclean error) (ended []orchestrator.Cycle, err error) {
	for _, c := range taken {
		if _, err := s.own(ctx, q, c.ID); err != nil {
			return nil, err
		}
		status, why := orchestrator.Interrupted, c.Why
		if c.CancelRequested {
			status, why = orchestrator.Cancelled, "cancelled; "+why
		}
		if unclean != nil {
			why += fmt.Sprintf("; the target has not confirmed it yet: %v", unclean)
		}
		c, err := endCycle(ctx, q, c.ID, status, why)
		if err != nil {
			return nil, err
		}
		ended = append(ended, c)
	}
	return ended, nil
}

// goneWhy says what became of a cycle's process and of the rules.
func (s *Store) goneWhy(c queries.Cycle, onTrial bool, champion int) string {
	s.mu.Lock()
	lost, never := s.former[value(c.Owner)], value(c.Owner) == s.session.instance
	s.mu.Unlock()
	what := "its process ended"
	switch {
	case lost:
		what = "the session with Postgres was lost"
	case never:
		what = "it never began, since Postgres took too long to hand it over"
	}
	switch {
	case onTrial:
		return fmt.Sprintf("%s during the trial; v%d was put back in force", what, champion)
	case champion != 0:
		return fmt.Sprintf("%s; v%d stays in force", what, champion)
	}
	return what
}
