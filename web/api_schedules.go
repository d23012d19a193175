package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"retune/orchestrator"
)

// scheduleBody is a schedule as the API takes it.
type scheduleBody struct {
	Name      string `json:"name" minLength:"1"`
	Cron      string `json:"cron" minLength:"1" doc:"five fields, or @hourly, @daily, @weekly"`
	Zone      string `json:"time_zone,omitempty" default:"UTC" doc:"e.g. Europe/Athens"`
	Profile   string `json:"profile,omitempty"`
	Generator string `json:"generator,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Missed    string `json:"missed,omitempty" enum:"run_once,skip" default:"run_once" doc:"what becomes of a run missed by more than an hour"`
	Enabled   *bool  `json:"enabled,omitempty" doc:"true by default"`

	// What the server sets: taken and left alone, so that a schedule can be sent back as it was read.
	ID        int64       `json:"id,omitempty" readOnly:"true"`
	NextRun   time.Time   `json:"next_run_at,omitempty" readOnly:"true"`
	LastRun   time.Time   `json:"last_run_at,omitempty" readOnly:"true"`
	LastCycle int64       `json:"last_cycle_id,omitempty" readOnly:"true"`
	LastNote  string      `json:"last_note,omitempty" readOnly:"true"`
	Created   time.Time   `json:"created_at,omitempty" readOnly:"true"`
	Next      []time.Time `json:"next_runs,omitempty" readOnly:"true"`
}

// scheduleAnswer is a schedule with its next runs.
type scheduleAnswer struct {
	orchestrator.Schedule
	Next []time.Time `json:"next_runs"`
}

func answerSchedule(sc orchestrator.Schedule, err error) (*body[scheduleAnswer], error) {
	if err != nil {
		return nil, err
	}
	return answer(scheduleAnswer{sc, nextRuns(sc)}, nil)
}

// save checks a body and stores it into a schedule.
func (s *Server) save(ctx context.Context, sc orchestrator.Schedule, b scheduleBody) (orchestrator.Schedule, error) {
	sc, err := s.into(sc, scheduleForm{b.Name, b.Cron, b.Zone, b.Profile, b.Generator, b.Driver, b.Missed})
	if err != nil {
		return sc, err
	}
	sc.Enabled = b.Enabled == nil || *b.Enabled
	return s.Schedules.SaveSchedule(ctx, sc)
}

// scheduleCalls are the cycles that start by themselves.
func (s *Server) scheduleCalls() {
	call(s, "GET", "/schedules", "List schedules", 0, s.apiSchedules)
	call(s, "POST", "/schedules", "Add a schedule", http.StatusCreated, func(ctx context.Context, in *body[scheduleBody]) (*created[scheduleAnswer], error) {
		sc, err := s.save(ctx, orchestrator.Schedule{}, in.Body)
		if err != nil {
			return nil, err
		}
		return &created[scheduleAnswer]{schedulePath(sc.ID), scheduleAnswer{sc, nextRuns(sc)}}, nil
	})
	call(s, "GET", "/schedules/{id}", "One schedule", 0, func(ctx context.Context, in *numbered) (*body[scheduleAnswer], error) {
		return answerSchedule(s.Schedules.Schedule(ctx, in.ID))
	})
	call(s, "PUT", "/schedules/{id}", "Change a schedule", 0, func(ctx context.Context, in *struct {
		ID   int64 `path:"id" minimum:"1"`
		Body scheduleBody
	}) (*body[scheduleAnswer], error) {
		sc, err := s.Schedules.Schedule(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return answerSchedule(s.save(ctx, sc, in.Body))
	})
	call(s, "DELETE", "/schedules/{id}", "Delete a schedule", http.StatusNoContent, func(ctx context.Context, in *numbered) (*struct{}, error) {
		return nil, s.Schedules.DeleteSchedule(ctx, in.ID)
	})
	call(s, "POST", "/schedules/{id}/run", "Run a schedule's cycle now", http.StatusAccepted, func(ctx context.Context, in *numbered) (*accepted, error) {
		return accept(s.runNow(ctx, in.ID, actor(ctx, "", "api")))
	})
	call(s, "POST", "/schedules/{id}/pause", "Pause a schedule", 0, func(ctx context.Context, in *numbered) (*body[scheduleAnswer], error) {
		return answerSchedule(s.setEnabled(ctx, in.ID, false))
	})
	call(s, "POST", "/schedules/{id}/resume", "Resume a schedule", 0, func(ctx context.Context, in *numbered) (*body[scheduleAnswer], error) {
		return answerSchedule(s.setEnabled(ctx, in.ID, true))
	})
}

func schedulePath(id int64) string { return fmt.Sprintf("%s/schedules/%d", apiBase, id) }

func (s *Server) apiSchedules(ctx context.Context, _ *struct{}) (*body[list[scheduleAnswer]], error) {
	all, err := s.Schedules.Schedules(ctx)
	var items []scheduleAnswer
	for _, sc := range all {
		items = append(items, scheduleAnswer{sc, nextRuns(sc)})
	}
	return answer(listed(items, 0), err)
}
