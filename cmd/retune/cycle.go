package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

type cycleCmd struct {
	Profile   string   `help:"How long and how hard: ${enum}." enum:"quick,standard,nightly" default:"standard"`
	Generator string   `help:"What proposes the rules: ${enum}; auto is openai when it has a key, else local." enum:"auto,openai,local" default:"auto"`
	Driver    string   `help:"What produces the load: ${enum}." enum:"auto,k6,builtin" default:"auto"`
	Scenario  []string `help:"Only these scenarios. Repeatable."`
	Proposal  string   `help:"Judge this rule file instead of a generator's answer." type:"existingfile" placeholder:"FILE"`
	Force     bool     `help:"Measure a proposal even when it changes nothing."`
	Up        bool     `help:"Start everything first, as retune up does, and stop it afterwards."`
	tableFlags
	serverFlags
	upFlags
}

// Run runs one cycle and waits for its verdict; the exit code tells it.
func (c *cycleCmd) Run(ctx context.Context, o *output) error {
	if !c.Up {
		api, err := c.client()
		if err != nil {
			return err
		}
		return c.follow(ctx, o, api)
	}
	c.NoCalibrate = true
	if c.LogLevel == slog.LevelInfo {
		c.LogLevel = slog.LevelWarn // the progress is what is looked at
	}
	var outcome error
	err := c.up(ctx, c.logger(o.err), o.err, func(ctx context.Context, s *serving) error {
		f := serverFlags{Server: "http://" + s.listener.Addr().String(), Token: c.AuthToken}
		api, err := f.client()
		if err == nil {
			outcome = c.follow(ctx, o, api)
		}
		return err
	})
	if outcome != nil {
		return outcome
	}
	return err
}

// request is what is asked of the orchestrator.
func (c *cycleCmd) request() (orchestrator.Request, error) {
	r := orchestrator.Request{Kind: orchestrator.Tune, Trigger: "cli", Profile: loadtest.Profile(c.Profile),
		Generator: generatorName(c.Generator), Driver: loadtest.Driver(c.Driver), Scenarios: c.Scenario, Force: c.Force}
	if c.Proposal == "" {
		return r, nil
	}
	b, err := os.ReadFile(c.Proposal)
	if err != nil {
		return r, usage("reading the proposal: %w", err)
	}
	r.Generator, r.Proposal = "file", string(b)
	return r, nil
}

// generatorName leaves the choice to the orchestrator when it is auto.
func generatorName(s string) string {
	if s == "auto" {
		return ""
	}
	return s
}

// follow starts the cycle, shows how it goes, and prints what came of it.
func (c *cycleCmd) follow(ctx context.Context, o *output, api *apiClient) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	var started orchestrator.Cycle
	if err := api.call(ctx, http.MethodPost, "/cycles", r, &started); err != nil {
		return err
	}
	fmt.Fprintf(o.err, "Cycle %d is queued (%s). Watch it at %s/cycles/%d; Ctrl-C cancels it.\n", started.ID, c.Profile, api.base, started.ID)
	done, err := watch(ctx, o, api, started.ID)
	if ctx.Err() != nil {
		return c.cancel(ctx, o, api, started.ID)
	}
	if err != nil {
		return err
	}
	return c.result(o, done)
}

// cancel asks for the cycle's end and waits for it: the champion is in force again when it returns.
func (c *cycleCmd) cancel(ctx context.Context, o *output, api *apiClient, id int64) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	fmt.Fprintln(o.err, "Cancelling; the champion goes back in force.")
	if err := api.call(ctx, http.MethodPost, cyclePath(id)+"/cancel", nil, nil); err != nil {
		return &exitError{exitInterrupted, fmt.Errorf("cancelling cycle %d: %w", id, err)}
	}
	done, err := watch(ctx, &output{o.out, discard{}}, api, id)
	if err != nil {
		return &exitError{exitInterrupted, err}
	}
	return &exitError{exitInterrupted, fmt.Errorf("cycle %d: %s", id, done.Why)}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func cyclePath(id int64) string { return "/cycles/" + strconv.FormatInt(id, 10) }

// watch polls a cycle once a second until it has ended.
func watch(ctx context.Context, o *output, api *apiClient, id int64) (orchestrator.Cycle, error) {
	show := newProgress(o)
	defer show.end()
	for failures := 0; ; {
		var c orchestrator.Cycle
		err := api.call(ctx, http.MethodGet, cyclePath(id), nil, &c)
		var p *apiProblem
		switch {
		case err == nil && c.Status.Ended():
			return c, nil
		case err == nil:
			failures = 0
			var l orchestrator.Live
			if api.call(ctx, http.MethodGet, cyclePath(id)+"/live", nil, &l) == nil {
				show.live(l)
			}
		case ctx.Err() != nil:
			return c, context.Cause(ctx)
		case errors.As(err, &p) && p.Status == http.StatusNotFound, failures > 30: // a restart of the orchestrator is waited for
			return c, err
		default:
			failures++
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// result prints the verdict's table, and turns the status into the exit code.
func (c *cycleCmd) result(o *output, done orchestrator.Cycle) error {
	var rows [][]string
	if done.Verdict != nil {
		for _, f := range done.Verdict.Findings {
			rows = append(rows, findingRow(f))
		}
	}
	if len(rows) > 0 || c.Output != "table" {
		if err := c.print(o, done, []string{"scenario", "metric", "champion", "candidate", "effect", "95% interval", "limit", "pairs", "result"}, rows,
			"champion", "candidate", "effect", "95% interval", "limit", "pairs"); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.err, "\nCycle %d %s\n", done.ID, ending(done))
	if done.Candidate != 0 && done.Status == orchestrator.Kept {
		fmt.Fprintf(o.err, "v%d is in force now.\n", done.Candidate)
	} else {
		fmt.Fprintf(o.err, "v%d stays in force.\n", done.Champion)
	}
	switch done.Status {
	case orchestrator.Kept, orchestrator.NoChange, orchestrator.Finished:
		return nil
	case orchestrator.RolledBack:
		return &exitError{code: exitRolledBack}
	case orchestrator.Inconclusive:
		return &exitError{code: exitInconclusive}
	case orchestrator.Cancelled, orchestrator.Interrupted:
		return &exitError{code: exitInterrupted}
	}
	return &exitError{code: exitFailed}
}

// ending says how a cycle ended; a verdict's reason begins with its outcome.
func ending(c orchestrator.Cycle) string {
	if c.Verdict != nil && c.Why == c.Verdict.Reason {
		return c.Why
	}
	return strings.ReplaceAll(string(c.Status), "_", " ") + ": " + c.Why
}

func findingRow(f verdict.Finding) []string {
	figure := func(v float64) string {
		switch f.Metric {
		case verdict.P95:
			return fmt.Sprintf("%.1f ms", v)
		case verdict.ErrorRate:
			return fmt.Sprintf("%.2f%%", 100*v)
		}
		return fmt.Sprintf("%.1f/s", v)
	}
	unit := "%"
	if f.Metric == verdict.ErrorRate {
		unit = " pt"
	}
	return []string{f.Scenario, string(f.Metric), figure(f.Champion), figure(f.Candidate), fmt.Sprintf("%+.1f%s", 100*f.Effect, unit),
		fmt.Sprintf("%+.1f … %+.1f%s", 100*f.Low, 100*f.High, unit), fmt.Sprintf("%+.0f%s", 100*f.Limit, unit), strconv.Itoa(f.Pairs), string(f.Outcome)}
}
