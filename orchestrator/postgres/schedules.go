package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres/queries"
)

// What becomes of a run that was missed by more than missedAfter.
const (
	runOnce = "run_once"
	skip    = "skip"

	missedAfter = time.Hour
)

// Schedules are all schedules, by name.
func (s *Store) Schedules(ctx context.Context) ([]orchestrator.Schedule, error) {
	rows, err := s.q.Schedules(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading schedules: %w", err)
	}
	list := make([]orchestrator.Schedule, len(rows))
	for i, r := range rows {
		list[i] = toSchedule(r)
	}
	return list, nil
}

// Schedule is one schedule; ErrNotFound when there is none of that number.
func (s *Store) Schedule(ctx context.Context, id int64) (orchestrator.Schedule, error) {
	r, err := s.q.Schedule(ctx, id)
	if err != nil {
		return orchestrator.Schedule{}, fmt.Errorf("reading schedule %d: %w", id, found(err))
	}
	return toSchedule(r), nil
}

func toSchedule(r queries.Schedule) orchestrator.Schedule {
	return orchestrator.Schedule{
		ID: r.ID, Name: r.Name, Cron: r.Cron, Zone: r.TimeZone, Profile: r.Profile, Generator: r.Generator, Driver: r.Driver,
		Missed: r.Missed, Enabled: r.Enabled, NextRun: value(r.NextRunAt), LastRun: value(r.LastRunAt),
		LastCycle: value(r.LastCycleID), LastNote: r.LastNote, Created: r.CreatedAt,
	}
}

// SaveSchedule makes a schedule (ID 0) or changes one, and computes its next run. ErrInvalid says everything that is
// wrong with it, ErrNotFound that there is none to change.
func (s *Store) SaveSchedule(ctx context.Context, sc orchestrator.Schedule) (orchestrator.Schedule, error) {
	sc, next, err := completeSchedule(sc, time.Now())
	if err != nil {
		return orchestrator.Schedule{}, err
	}
	p := queries.InsertScheduleParams{
		Name: sc.Name, Cron: sc.Cron, TimeZone: sc.Zone, Profile: sc.Profile, Generator: sc.Generator, Driver: sc.Driver,
		Missed: sc.Missed, Enabled: sc.Enabled, NextRunAt: next,
	}
	var row queries.Schedule
	if sc.ID == 0 {
		row, err = s.q.InsertSchedule(ctx, p)
	} else {
		row, err = s.q.UpdateSchedule(ctx, queries.UpdateScheduleParams{
			ID: sc.ID, Name: p.Name, Cron: p.Cron, TimeZone: p.TimeZone, Profile: p.Profile, Generator: p.Generator, Driver: p.Driver,
			Missed: p.Missed, Enabled: p.Enabled, NextRunAt: p.NextRunAt,
		})
	}
	if codeOf(err) == uniqueViolation {
		err = fmt.Errorf("%w: there is another schedule of that name", orchestrator.ErrInvalid)
	}
	if err != nil {
		return orchestrator.Schedule{}, fmt.Errorf("saving schedule %q: %w", sc.Name, found(err))
	}
	return toSchedule(row), nil
}

// completeSchedule fills in defaults, refuses what can't be, and computes the next run; nil while it is paused.
func completeSchedule(sc orchestrator.Schedule, now time.Time) (orchestrator.Schedule, *time.Time, error) {
	sc.Name, sc.Cron = clean(strings.TrimSpace(sc.Name)), strings.TrimSpace(sc.Cron)
	sc.Zone = cmp.Or(sc.Zone, "UTC")
	sc.Missed = cmp.Or(sc.Missed, runOnce)
	sc.Driver = cmp.Or(sc.Driver, loadtest.Auto)
	sc.Generator = cmp.Or(sc.Generator, "local")
	next, err := orchestrator.Next(sc.Cron, sc.Zone, now)
	if sc.Name == "" || len(sc.Name) > 100 {
		err = errors.Join(err, fmt.Errorf("%w: a schedule needs a name of 1 to 100 bytes", orchestrator.ErrInvalid))
	}
	err = errors.Join(err,
		oneOf("profile", sc.Profile, loadtest.Quick, loadtest.Standard, loadtest.Nightly),
		oneOf("generator", sc.Generator, "openai", "local"),
		oneOf("driver", sc.Driver, loadtest.Auto, loadtest.K6, loadtest.Builtin),
		oneOf("missed", sc.Missed, runOnce, skip))
	if err != nil || !sc.Enabled {
		return sc, nil, err
	}
	return sc, &next, nil
}

// DeleteSchedule removes a schedule; its cycles stay.
func (s *Store) DeleteSchedule(ctx context.Context, id int64) error {
	n, err := s.q.DeleteSchedule(ctx, id)
	if err == nil && n == 0 {
		err = orchestrator.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("deleting schedule %d: %w", id, err)
	}
	return nil
}

// RunNow queues a schedule's cycle at once; its next time stays. ErrBusy as with Enqueue.
func (s *Store) RunNow(ctx context.Context, id int64, actor string) (c orchestrator.Cycle, err error) {
	err = s.tx(ctx, func(q *queries.Queries) error {
		sc, err := q.Schedule(ctx, id)
		if err != nil {
			return found(err)
		}
		if c, err = enqueue(ctx, q, s.requestOf(sc, actor)); err != nil {
			return err
		}
		return q.ScheduleRan(ctx, queries.ScheduleRanParams{ID: id, RanAt: &c.Created, CycleID: &c.ID})
	})
	if err != nil && !errors.Is(err, orchestrator.ErrBusy) {
		return orchestrator.Cycle{}, fmt.Errorf("running schedule %d: %w", id, err)
	}
	return c, err
}

// requestOf is what a schedule asks to be run.
func (s *Store) requestOf(sc queries.Schedule, actor string) orchestrator.Request {
	return orchestrator.Request{
		Kind: orchestrator.Tune, Trigger: "schedule", Actor: actor, Schedule: sc.ID, Target: s.options.Target,
		Profile: sc.Profile, Generator: sc.Generator, Driver: sc.Driver, Limits: s.options.Limits,
	}
}

// FireDue queues a cycle for each schedule that is due at now and moves it to its next time, in one transaction:
// several instances never fire one time twice. A run is left out, with a note, while the schedule's own earlier cycle
// is queued or running, and, if the schedule says skip, when it is late by more than an hour.
func (s *Store) FireDue(ctx context.Context, now time.Time) (fired []orchestrator.Cycle, err error) {
	err = s.tx(ctx, func(q *queries.Queries) error {
		due, err := q.DueSchedules(ctx, &now)
		if err != nil {
			return err
		}
		for _, sc := range due {
			c, err := s.fire(ctx, q, sc, now)
			if err != nil {
				return fmt.Errorf("schedule %q: %w", sc.Name, err)
			}
			if c.ID != 0 {
				fired = append(fired, c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("firing the schedules that are due: %w", err)
	}
	return fired, nil
}

// fire runs or leaves out one due run; the zero cycle when it was left out. The row is locked.
func (s *Store) fire(ctx context.Context, q *queries.Queries, sc queries.Schedule, now time.Time) (orchestrator.Cycle, error) {
	next, err := orchestrator.Next(sc.Cron, sc.TimeZone, now)
	if err != nil { // what was valid may become void with another time zone table
		return orchestrator.Cycle{}, q.ScheduleStop(ctx, queries.ScheduleStopParams{ID: sc.ID, Note: "paused: " + err.Error()})
	}
	if err := q.ScheduleNext(ctx, queries.ScheduleNextParams{ID: sc.ID, NextRunAt: &next}); err != nil {
		return orchestrator.Cycle{}, err
	}
	due := sc.NextRunAt.Format("2006-01-02 15:04 UTC")
	open, err := q.OpenCycleOfSchedule(ctx, &sc.ID)
	if err == nil {
		note := fmt.Sprintf("the run of %s was left out: cycle %d is still %s", due, open.ID, open.Status)
		return orchestrator.Cycle{}, q.ScheduleNote(ctx, queries.ScheduleNoteParams{ID: sc.ID, Note: note})
	}
	if err := found(err); !errors.Is(err, orchestrator.ErrNotFound) {
		return orchestrator.Cycle{}, err
	}
	note, late := "", now.Sub(*sc.NextRunAt)
	if late > missedAfter {
		note = fmt.Sprintf("the run of %s was missed by %s", due, late.Round(time.Minute))
		if sc.Missed == skip {
			return orchestrator.Cycle{}, q.ScheduleNote(ctx, queries.ScheduleNoteParams{ID: sc.ID, Note: note + " and left out"})
		}
		note += " and made up for once"
	}
	if err := stepAside(ctx, q, s.options.Target, "it made way for the schedule "+sc.Name); err != nil {
		return orchestrator.Cycle{}, err
	}
	c, err := insertCycle(ctx, q, s.requestOf(sc, sc.Name))
	if err != nil {
		return orchestrator.Cycle{}, err
	}
	return c, q.ScheduleRan(ctx, queries.ScheduleRanParams{ID: sc.ID, RanAt: &now, CycleID: &c.ID, Note: note})
}

// stepAside ends the calibration that Retune started by itself, if that is what loads a target or waits for it: it
// never keeps a cycle waiting.
func stepAside(ctx context.Context, q *queries.Queries, target, why string) error {
	open, err := q.OpenCycle(ctx, target)
	if errors.Is(found(err), orchestrator.ErrNotFound) {
		return nil
	}
	if err != nil || !(orchestrator.Request{Kind: open.Kind, Trigger: open.Trigger}).BySelf() {
		return err
	}
	if open, err = q.LockCycle(ctx, open.ID); err != nil { // it may have been claimed, or have ended, meanwhile
		return err
	}
	switch {
	case open.FinishedAt != nil:
		return nil
	case open.Status == orchestrator.Queued:
		_, err := endCycle(ctx, q, open.ID, orchestrator.Cancelled, why)
		return err
	}
	return q.RequestCancel(ctx, open.ID)
}
