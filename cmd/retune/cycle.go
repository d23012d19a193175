package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

type cycleCmd struct {
	Profile   string   `help:"How long and how hard: ${enum}." enum:"quick,standard,nightly" default:"standard"`
	Generator string   `help:"What proposes the rules: ${enum}; auto is openai when it has a key, else local." enum:"auto,openai,local" default:"auto"`
	Driver    string   `help:"What produces the load: ${enum}." enum:"auto,k6,builtin" default:"auto"`
	Scenario  []string `help:"Only these scenarios. Repeatable."`
	Proposal  string   `help:"Judge this rule file instead of a generator's answer." type:"existingfile" placeholder:"FILE" xor:"proposal"`
	Replay    string   `help:"Have this recorded cassette answer in a model's place; needs no key and costs nothing." type:"existingfile" placeholder:"FILE" xor:"proposal"`
	Force     bool     `help:"Measure a proposal even when it changes nothing."`
	limitFlags
	Up bool `help:"Start everything first, as retune up does, and stop it afterwards."`
	tableFlags
	serverFlags
	upFlags `group:"With --up, as of retune up:"`
}

// Help is what --help says below the command's line.
func (*cycleCmd) Help() string {
	return "Exit codes: 0 the new rules were kept, or there was no change: the proposal needed no trial, and the rules in force " +
		"stay as they are; 3 they were rolled back; 4 nothing could be told; 5 something that is needed is out of reach; " +
		"130 cancelled or interrupted; 1 anything else that went wrong."
}

// Run runs one cycle and waits for its verdict; the exit code tells it.
func (c *cycleCmd) Run(ctx context.Context, o *output) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	if c.Up {
		return c.runUp(ctx, o, r)
	}
	if c.Record != "" {
		fmt.Fprintln(o.err, "Note: --record is for --up. The orchestrator that runs this cycle records if it was started with --record.")
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	if r.Limits, err = c.limits(ctx, api); err != nil {
		return err
	}
	done, err := follow(ctx, o, api, r)
	if err != nil {
		return err
	}
	return c.result(o, done, noiseFoot(ctx, api, done))
}

// runUp brings everything up for the one cycle. When ctx ends the API ends with it: it is the orchestrator's stop,
// which up waits for, that puts the champion back.
func (c *cycleCmd) runUp(ctx context.Context, o *output, r orchestrator.Request) error {
	c.NoCalibrate = true
	if c.LogLevel == slog.LevelInfo {
		c.LogLevel = slog.LevelWarn // the progress is what is looked at
	}
	var outcome error
	err := c.up(ctx, c.logger(o.err), o.err, func(up context.Context, s *serving) error {
		api, err := serverFlags{Server: "http://" + s.listener.Addr().String(), Token: c.AuthToken}.client()
		if err != nil {
			return err
		}
		if r.Limits, err = c.limits(up, api); err != nil {
			return err
		}
		done, err := followUntil(up, o, api, r)
		if err == nil {
			outcome = c.result(o, done, noiseFoot(up, api, done))
		}
		if up.Err() == nil {
			return err
		}
		if ctx.Err() != nil && err != nil {
			fmt.Fprintln(o.err, "Stopping; the orchestrator puts the champion back in force.")
		}
		return nil // what ended it is up's to tell
	})
	switch {
	case outcome != nil:
		return outcome
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, err}
	}
	return err
}

// request is what is asked of the orchestrator.
func (c *cycleCmd) request() (orchestrator.Request, error) {
	if _, err := c.over(verdict.DefaultLimits()); err != nil { // before anything is started
		return orchestrator.Request{}, err
	}
	r := orchestrator.Request{Kind: orchestrator.Tune, Trigger: "cli", Actor: whoami(), Profile: loadtest.Profile(c.Profile),
		Generator: generatorName(c.Generator), Driver: loadtest.Driver(c.Driver), Scenarios: c.Scenario, Force: c.Force}
	if c.Replay != "" {
		b, err := os.ReadFile(c.Replay)
		if err != nil {
			return r, usage("reading the cassette: %w", err)
		}
		if _, err := advisor.ReadCassette(string(b)); err != nil {
			return r, usage("%s: %w", c.Replay, err)
		}
		r.Generator, r.Replay = "replay", string(b)
		return r, nil
	}
	if c.Proposal == "" {
		return r, nil
	}
	b, err := checkedRules(c.Proposal)
	if err != nil {
		return r, err
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

// findings prints a verdict's table, or what it is part of as JSON or YAML.
func (f tableFlags) findings(o *output, whole any, findings []verdict.Finding) error {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, findingRow(f))
	}
	if len(rows) == 0 && f.Output == "table" {
		return nil
	}
	return f.print(o, whole, []string{"scenario", "metric", "champion", "candidate", "effect", "95% interval", "limit", "pairs", "result"}, rows,
		"champion", "candidate", "effect", "95% interval", "limit", "pairs")
}

// result prints the verdict's table with what stands below it, and turns the status into the exit code.
func (c *cycleCmd) result(o *output, done orchestrator.Cycle, foot string) error {
	var findings []verdict.Finding
	if done.Verdict != nil {
		findings = done.Verdict.Findings
	}
	if err := c.findings(o, done, findings); err != nil {
		return err
	}
	if foot != "" {
		fmt.Fprintln(o.err, foot)
	}
	fmt.Fprintf(o.err, "\nCycle %d %s\n", done.ID, ending(done))
	switch done.Status { // what is in force after any other ending, its own sentence has to say
	case orchestrator.Kept:
		fmt.Fprintf(o.err, "v%d is in force now.\n", done.Candidate)
	case orchestrator.RolledBack, orchestrator.Inconclusive, orchestrator.NoChange:
		fmt.Fprintf(o.err, "v%d stays in force.\n", done.Champion)
	}
	return outcomeError(done.Status)
}

// outcomeError is the exit code of a cycle that has ended.
func outcomeError(s orchestrator.Status) error {
	switch s {
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
	how := words(c.Status) + ": "
	return how + strings.TrimPrefix(c.Why, how)
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
	unit, digits := "%", 1
	if f.Metric == verdict.ErrorRate {
		unit, digits = " pp", 2
	}
	scenario := f.Scenario
	if f.HoldOut {
		scenario += " (hold-out)"
	}
	return []string{scenario, string(f.Metric), figure(f.Champion), figure(f.Candidate), fmt.Sprintf("%+.*f%s", digits, 100*f.Effect, unit),
		fmt.Sprintf("%+.*f … %+.*f%s", digits, 100*f.Low, digits, 100*f.High, unit), fmt.Sprintf("%+.4g%s", 100*f.Limit, unit), strconv.Itoa(f.Pairs), string(f.Outcome)}
}
