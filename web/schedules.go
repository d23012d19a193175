package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

// upcoming is how many of a schedule's next runs are shown.
const upcoming = 5

// scheduleView is a schedule with its next runs.
type scheduleView struct {
	orchestrator.Schedule
	Next    []time.Time
	Outlook *orchestrator.Outlook // nil: nothing can be said
}

func (s *Server) schedules(c echo.Context) error {
	return s.schedulesWith(c, http.StatusOK, scheduleForm{}, "")
}

// schedulesWith is the page with a form that is filled in, and what is wrong with it.
func (s *Server) schedulesWith(c echo.Context, status int, f scheduleForm, problem string) error {
	list, err := s.Schedules.Schedules(c.Request().Context())
	if err != nil {
		return err
	}
	var views []scheduleView
	var requests []orchestrator.Request
	for _, sc := range list {
		views = append(views, scheduleView{sc, nextRuns(sc), nil})
		requests = append(requests, orchestrator.Request{Kind: orchestrator.Tune, Profile: sc.Profile, Generator: sc.Generator, Driver: sc.Driver, Limits: s.Choices.Limits})
	}
	for i, o := range s.outlooks(c.Request().Context(), requests...) {
		views[i].Outlook = &o
	}
	return s.renderStatus(c, status, schedulesPage(s.page("Schedules", "Schedules"), views, s.Choices, f, problem))
}

// nextRuns is a schedule's next runs; a paused one has none.
func nextRuns(sc orchestrator.Schedule) []time.Time {
	if !sc.Enabled {
		return nil
	}
	next, err := orchestrator.Upcoming(sc.Cron, sc.Zone, time.Now(), upcoming)
	if err != nil {
		return nil // it was valid when it was saved: the zone table has changed since
	}
	return next
}

// scheduleForm is what a schedule is made of; empty fields mean the defaults.
type scheduleForm struct {
	Name      string `form:"name"`
	Cron      string `form:"cron"`
	Zone      string `form:"time_zone"`
	Profile   string `form:"profile"`
	Generator string `form:"generator"`
	Driver    string `form:"driver"`
	Missed    string `form:"missed"`
}

// into puts a checked form into a schedule. An invalid one is an ErrInvalid that names the field.
func (s *Server) into(sc orchestrator.Schedule, f scheduleForm) (orchestrator.Schedule, error) {
	sc.Name, sc.Cron = strings.TrimSpace(f.Name), strings.TrimSpace(f.Cron)
	sc.Zone, sc.Missed = cmp.Or(strings.TrimSpace(f.Zone), "UTC"), cmp.Or(f.Missed, "run_once")
	if sc.Name == "" {
		return sc, invalid("a name is needed, e.g. nightly")
	}
	if sc.Missed != "run_once" && sc.Missed != "skip" {
		return sc, invalid("missed %q is not known: choose run_once or skip", sc.Missed)
	}
	if _, err := orchestrator.Next(sc.Cron, sc.Zone, time.Now()); err != nil {
		return sc, err
	}
	profile, err := pick("profile", f.Profile, s.Choices.Profiles)
	if err != nil {
		return sc, err
	}
	driver, err := pick("driver", f.Driver, s.Choices.Drivers)
	if err != nil {
		return sc, err
	}
	sc.Profile, sc.Driver = loadtest.Profile(profile), loadtest.Driver(driver)
	sc.Generator, err = pick("generator", f.Generator, s.Choices.Generators)
	return sc, err
}

func (s *Server) addSchedule(c echo.Context) error {
	var f scheduleForm
	if err := c.Bind(&f); err != nil {
		return err
	}
	sc, err := s.into(orchestrator.Schedule{Enabled: true}, f)
	if err == nil {
		_, err = s.Schedules.SaveSchedule(c.Request().Context(), sc)
	}
	if errors.Is(err, orchestrator.ErrInvalid) {
		return s.schedulesWith(c, http.StatusUnprocessableEntity, f, err.Error())
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/schedules")
}

// pauseSchedule and resumeSchedule stop and start a schedule without forgetting it.
func (s *Server) pauseSchedule(c echo.Context) error  { return s.enable(c, false) }
func (s *Server) resumeSchedule(c echo.Context) error { return s.enable(c, true) }

func (s *Server) enable(c echo.Context, on bool) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	if _, err := s.setEnabled(c.Request().Context(), id, on); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/schedules")
}

func (s *Server) setEnabled(ctx context.Context, id int64, on bool) (orchestrator.Schedule, error) {
	sc, err := s.Schedules.Schedule(ctx, id)
	if err != nil {
		return sc, err
	}
	sc.Enabled = on
	return s.Schedules.SaveSchedule(ctx, sc)
}

func (s *Server) runSchedule(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	cy, err := s.runNow(c.Request().Context(), id, visitor(c))
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, cyclePath(cy.ID))
}

func (s *Server) runNow(ctx context.Context, id int64, who string) (orchestrator.Cycle, error) {
	cy, err := s.Schedules.RunNow(ctx, id, who)
	return cy, busy(cy, err)
}

func (s *Server) askDeleteSchedule(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	sc, err := s.Schedules.Schedule(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.render(c, deleteSchedulePage(s.page(fmt.Sprintf("Delete schedule %s?", sc.Name), "Schedules"), sc))
}

func (s *Server) deleteSchedule(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	if err := s.Schedules.DeleteSchedule(c.Request().Context(), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/schedules")
}
