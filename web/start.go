package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
)

// startForm is what a person or a program asks for; empty fields mean the defaults.
type startForm struct {
	Kind      string   `form:"kind"`
	Profile   string   `form:"profile"`
	Generator string   `form:"generator"`
	Driver    string   `form:"driver"`
	Scenarios []string `form:"scenarios"`
	Proposal  string   `form:"proposal"`
	Replay    string   `form:"replay"`
	Force     bool     `form:"force"`
	P95       string   `form:"p95"` // limits, as verdict.Limits.With reads them
	RPS       string   `form:"rps"`
	Errors    string   `form:"errors"`
}

func (s *Server) startCycle(c echo.Context) error {
	var f startForm
	if err := c.Bind(&f); err != nil {
		return err
	}
	r, err := s.request(f)
	if err != nil {
		return err
	}
	r.Trigger, r.Actor = "web", visitor(c)
	cy, err := s.enqueue(c.Request().Context(), r)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, cyclePath(cy.ID))
}

// request checks a form against the choices that there are.
func (s *Server) request(f startForm) (r orchestrator.Request, err error) {
	r = orchestrator.Request{
		Kind: orchestrator.Kind(f.Kind), Target: s.Target, Limits: s.Choices.Limits,
		Scenarios: f.Scenarios, Proposal: f.Proposal, Force: f.Force, Generator: f.Generator,
	}
	switch r.Kind {
	case "":
		r.Kind = orchestrator.Tune
	case orchestrator.Tune, orchestrator.Calibrate:
	default:
		return r, invalid("kind %q is not known: choose one of tune, calibrate", f.Kind)
	}
	profile, err := pick("profile", f.Profile, s.Choices.Profiles)
	if err != nil {
		return r, err
	}
	driver, err := pick("driver", f.Driver, s.Choices.Drivers)
	if err != nil {
		return r, err
	}
	r.Profile, r.Driver = loadtest.Profile(profile), loadtest.Driver(driver)
	if r.Limits, err = limitsWith(s.Choices.Limits, f.P95, f.RPS, f.Errors); err != nil {
		return r, err
	}
	if r.Kind == orchestrator.Calibrate {
		r.Generator = ""
		if r.Proposal != "" || f.Replay != "" {
			return r, invalid("a calibration takes no proposal and no cassette: it measures the rules in force against themselves")
		}
		return r, nil
	}
	if f.Generator == "replay" || f.Replay != "" {
		return replayed(r, f.Replay)
	}
	if r.Proposal == "" {
		r.Generator, err = pick("generator", f.Generator, s.Choices.Generators)
		return r, err
	}
	r.Generator = "file"
	_, err = parseRules(r.Proposal)
	return r, err
}

// replayed is a request that a cassette answers in a model's place.
func replayed(r orchestrator.Request, cassette string) (orchestrator.Request, error) {
	if r.Generator != "replay" || r.Proposal != "" {
		return r, invalid("a cassette goes with generator replay, and with no proposal")
	}
	if _, err := advisor.ReadCassette(cassette); err != nil {
		return r, invalid("generator replay: %v", err)
	}
	r.Replay = cassette
	return r, nil
}

// enqueue queues a cycle; a busyError names the one that is in the way.
func (s *Server) enqueue(ctx context.Context, r orchestrator.Request) (orchestrator.Cycle, error) {
	cy, err := s.Starter.Enqueue(ctx, r)
	return cy, busy(cy, err)
}

// busy adds to an ErrBusy which cycle is in the way.
func busy(cy orchestrator.Cycle, err error) error {
	if errors.Is(err, orchestrator.ErrBusy) {
		return &busyError{cy.ID, err}
	}
	return err
}

// busyError is ErrBusy with the cycle that is queued or running.
type busyError struct {
	Cycle int64
	err   error
}

func (e *busyError) Error() string { return e.err.Error() }
func (e *busyError) Unwrap() error { return e.err }

// askCancel shows what a cancel will do, for confirmation.
func (s *Server) askCancel(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	cy, err := s.History.Cycle(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.render(c, cancelPage(s.page(fmt.Sprintf("Cancel cycle %d?", id), "Cycles"), cy))
}

func (s *Server) cancelCycle(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	if err := s.Starter.Cancel(c.Request().Context(), id, visitor(c)); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, cyclePath(id))
}
