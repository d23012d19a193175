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

// Reclaim ends the cycles of instances that are gone as interrupted, and undoes their trials in the same transaction.
// It returns those that it ended. A trial that outlived its cycle is undone as well.
func (s *Store) Reclaim(ctx context.Context) (ended []orchestrator.Cycle, err error) {
	if due, err := s.reclaimable(ctx); err != nil || !due {
		return nil, err
	}
	err = s.tx(ctx, func(q *queries.Queries) (err error) {
		ended, err = s.reclaim(ctx, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ending the cycles of instances that are gone: %w", err)
	}
	return ended, nil
}

// reclaimable looks without a lock: most times there is nothing to do.
func (s *Store) reclaimable(ctx context.Context) (bool, error) {
	dead, err := s.q.DeadCycles(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for cycles of instances that are gone: %w", err)
	}
	stray, err := s.q.StrayTrial(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for a trial without a cycle: %w", err)
	}
	return stray || len(dead) > 0, nil
}

func (s *Store) reclaim(ctx context.Context, q *queries.Queries) (ended []orchestrator.Cycle, err error) {
	p, err := q.LockPointer(ctx)
	if err != nil && !errors.Is(found(err), orchestrator.ErrNotFound) {
		return nil, err
	}
	dead, err := q.DeadCycles(ctx) // again: under the lock nobody else ends them
	if err != nil {
		return nil, err
	}
	for _, id := range dead {
		if _, err := q.LockCycle(ctx, id); err != nil {
			return nil, err
		}
		c, err := endCycle(ctx, q, id, orchestrator.Interrupted, interruptedWhy(id, value(p.TrialCycle), p.Accepted))
		if err != nil {
			return nil, err
		}
		ended = append(ended, c)
	}
	stray, err := q.StrayTrial(ctx)
	if err != nil || !stray {
		return ended, err
	}
	return ended, s.crashRollback(ctx, q, value(p.TrialCycle))
}

// interruptedWhy says what becomes of the rules.
func interruptedWhy(cycle, trial int64, champion int) string {
	switch {
	case cycle == trial:
		return fmt.Sprintf("its process ended during the trial; v%d was put back in force", champion)
	case champion != 0:
		return fmt.Sprintf("its process ended; v%d stays in force", champion)
	}
	return "its process ended"
}
