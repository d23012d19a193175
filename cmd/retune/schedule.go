package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

type scheduleCmd struct {
	List   scheduleListCmd   `cmd:"" default:"withargs" help:"List the schedules and when they run next."`
	Add    scheduleAddCmd    `cmd:"" help:"Add a cycle that starts by itself."`
	Remove scheduleRemoveCmd `cmd:"" help:"Remove a schedule."`
	Pause  schedulePauseCmd  `cmd:"" help:"Stop a schedule from starting cycles."`
	Resume scheduleResumeCmd `cmd:"" help:"Let a paused schedule start cycles again."`
	Run    scheduleRunCmd    `cmd:"" help:"Start a schedule's cycle now."`
}

// scheduleCall makes one call of the schedules' API.
func (f serverFlags) scheduleCall(ctx context.Context, method, path string, in, out any) error {
	api, err := f.client()
	if err != nil {
		return err
	}
	return api.call(ctx, method, "/schedules"+path, in, out)
}

type scheduleListCmd struct {
	tableFlags
	serverFlags
}

func (c *scheduleListCmd) Run(ctx context.Context, o *output) error {
	var page struct {
		Items []orchestrator.Schedule `json:"items"`
	}
	if err := c.scheduleCall(ctx, http.MethodGet, "", nil, &page); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range page.Items {
		next := "paused"
		if s.Enabled && !s.NextRun.IsZero() {
			next = inZone(s.NextRun, s.Zone)
		}
		last := ""
		if s.LastCycle != 0 {
			last = fmt.Sprintf("cycle %d", s.LastCycle)
		}
		rows = append(rows, []string{strconv.FormatInt(s.ID, 10), s.Name, s.Cron, s.Zone, string(s.Profile), next, last, s.LastNote})
	}
	return c.print(o, page.Items, []string{"id", "name", "cron", "time zone", "profile", "next run", "last", "note"}, rows, "id")
}

func inZone(t time.Time, zone string) string {
	if loc, err := time.LoadLocation(zone); err == nil {
		t = t.In(loc)
	}
	return t.Format("Mon 2006-01-02 15:04 MST")
}

type scheduleAddCmd struct {
	Name      string `arg:"" help:"Its name."`
	Cron      string `arg:"" help:"Five fields such as '30 2 * * *', or @daily."`
	Zone      string `help:"Time zone." default:"UTC" placeholder:"Europe/Athens"`
	Profile   string `help:"How long and how hard: ${enum}." enum:"quick,standard,nightly" default:"nightly"`
	Generator string `help:"What proposes the rules: ${enum}; auto is openai when it has a key, else local." enum:"auto,openai,local" default:"auto"`
	Driver    string `help:"What produces the load: ${enum}." enum:"auto,k6,builtin" default:"auto"`
	Missed    string `help:"What becomes of a run that was missed by more than an hour: ${enum}." enum:"run_once,skip" default:"run_once"`
	serverFlags
}

func (c *scheduleAddCmd) Run(ctx context.Context, o *output) error {
	s := orchestrator.Schedule{Name: c.Name, Cron: c.Cron, Zone: c.Zone, Profile: loadtest.Profile(c.Profile), Generator: generatorName(c.Generator),
		Driver: loadtest.Driver(c.Driver), Missed: c.Missed, Enabled: true}
	if err := c.scheduleCall(ctx, http.MethodPost, "", s, &s); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.out, "schedule %d runs next at %s\n", s.ID, inZone(s.NextRun, s.Zone))
	return err
}

// scheduleArg names one schedule.
type scheduleArg struct {
	ID int64 `arg:"" help:"The schedule's number."`
	serverFlags
}

func (c *scheduleArg) path(then string) string { return "/" + strconv.FormatInt(c.ID, 10) + then }

type (
	scheduleRemoveCmd struct{ scheduleArg }
	schedulePauseCmd  struct{ scheduleArg }
	scheduleResumeCmd struct{ scheduleArg }
	scheduleRunCmd    struct{ scheduleArg }
)

func (c *scheduleRemoveCmd) Run(ctx context.Context) error {
	return c.scheduleCall(ctx, http.MethodDelete, c.path(""), nil, nil)
}

func (c *schedulePauseCmd) Run(ctx context.Context) error {
	return c.scheduleCall(ctx, http.MethodPost, c.path("/pause"), nil, nil)
}

func (c *scheduleResumeCmd) Run(ctx context.Context) error {
	return c.scheduleCall(ctx, http.MethodPost, c.path("/resume"), nil, nil)
}

func (c *scheduleRunCmd) Run(ctx context.Context, o *output) error {
	var started orchestrator.Cycle
	if err := c.scheduleCall(ctx, http.MethodPost, c.path("/run"), nil, &started); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.out, "cycle %d is queued\n", started.ID)
	return err
}
