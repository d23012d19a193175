package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres/queries"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
)

// Enqueue queues a cycle. ErrBusy together with the one that is queued or running on its target, ErrInvalid for a
// request that can't be run.
func (s *Store) Enqueue(ctx context.Context, r orchestrator.Request) (c orchestrator.Cycle, err error) {
	if r, err = s.complete(r); err != nil {
		return c, err
	}
	err = s.tx(ctx, func(q *queries.Queries) (err error) {
		c, err = enqueue(ctx, q, r)
		return err
	})
	if err != nil && !errors.Is(err, orchestrator.ErrBusy) {
		return orchestrator.Cycle{}, fmt.Errorf("queueing a cycle: %w", err)
	}
	return c, err
}

// complete fills in a request's defaults and refuses what no cycle could run.
func (s *Store) complete(r orchestrator.Request) (orchestrator.Request, error) {
	r.Target = cmp.Or(r.Target, s.options.Target)
	r.Driver = cmp.Or(r.Driver, loadtest.Auto)
	r.Limits = cmp.Or(r.Limits, s.options.Limits)
	if r.Kind == orchestrator.Tune {
		r.Generator = cmp.Or(r.Generator, "local")
	}
	return r, errors.Join(
		oneOf("kind", r.Kind, orchestrator.Tune, orchestrator.Calibrate),
		oneOf("trigger", r.Trigger, "web", "cli", "api", "schedule", "system"),
		oneOf("profile", r.Profile, loadtest.Quick, loadtest.Standard, loadtest.Nightly),
		oneOf("driver", r.Driver, loadtest.Auto, loadtest.K6, loadtest.Builtin),
		checkGenerator(r), checkLimits(r.Limits))
}

func checkGenerator(r orchestrator.Request) error {
	switch {
	case r.Kind != orchestrator.Tune:
		return nil
	case r.Generator == "file" && r.Proposal == "":
		return fmt.Errorf("%w: generator file needs a proposal", orchestrator.ErrInvalid)
	case len(r.Proposal) > rules.MaxSize:
		return fmt.Errorf("%w: the proposal has %d bytes, %d are the most", orchestrator.ErrInvalid, len(r.Proposal), rules.MaxSize)
	}
	if r.Generator == "replay" || r.Replay != "" {
		return checkReplay(r)
	}
	return oneOf("generator", r.Generator, "openai", "local", "file", "replay")
}

func checkReplay(r orchestrator.Request) error {
	if r.Generator != "replay" {
		return fmt.Errorf("%w: a cassette goes with generator replay, not %s", orchestrator.ErrInvalid, r.Generator)
	}
	if _, err := advisor.ReadCassette(r.Replay); err != nil {
		return fmt.Errorf("%w: generator replay: %w", orchestrator.ErrInvalid, err)
	}
	return nil
}

// checkLimits refuses what the judge would refuse after a whole look.
func checkLimits(l verdict.Limits) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("%w: %w; give all three limits, or none for the defaults", orchestrator.ErrInvalid, err)
	}
	return nil
}

// oneOf is an error when a value is none of those known.
func oneOf[T ~string](what string, v T, known ...T) error {
	if slices.Contains(known, v) {
		return nil
	}
	return fmt.Errorf("%w: %s %q: one of %v", orchestrator.ErrInvalid, what, v, known)
}

// enqueue inserts a cycle when nothing else waits for or loads its target.
func enqueue(ctx context.Context, q *queries.Queries, r orchestrator.Request) (orchestrator.Cycle, error) {
	if err := q.LockTarget(ctx, r.Target); err != nil {
		return orchestrator.Cycle{}, err
	}
	open, err := q.OpenCycle(ctx, r.Target)
	if err == nil {
		c, err := toCycle(open)
		return c, errors.Join(fmt.Errorf("%w: cycle %d is %s", orchestrator.ErrBusy, open.ID, open.Status), err)
	}
	if err := found(err); !errors.Is(err, orchestrator.ErrNotFound) {
		return orchestrator.Cycle{}, err
	}
	return insertCycle(ctx, q, r)
}

func insertCycle(ctx context.Context, q *queries.Queries, r orchestrator.Request) (orchestrator.Cycle, error) {
	limits, err := encode(r.Limits)
	if err != nil {
		return orchestrator.Cycle{}, err
	}
	row, err := q.InsertCycle(ctx, queries.InsertCycleParams{
		Kind: r.Kind, Trigger: r.Trigger, Actor: clean(r.Actor), ScheduleID: null(r.Schedule), Target: clean(r.Target), Profile: r.Profile,
		Generator: r.Generator, Driver: r.Driver, Scenarios: cleanAll(r.Scenarios), Limits: limits, Proposal: clean(r.Proposal), Replay: clean(r.Replay), Force: r.Force,
	})
	if err != nil {
		return orchestrator.Cycle{}, err
	}
	if err := q.OpenStep(ctx, queries.OpenStepParams{CycleID: row.ID, Name: orchestrator.Queued}); err != nil {
		return orchestrator.Cycle{}, err
	}
	return toCycle(row)
}
