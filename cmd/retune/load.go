package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"retune/orchestrator/loadtest"
)

// maxScenario bounds a scenario's JSON, in bytes.
const maxScenario = 1 << 20

type loadCmd struct {
	Scenario string `arg:"" optional:"" default:"-" help:"File with the scenario as JSON, or - for stdin."`
}

// Run makes the scenario's load. A reader that goes away ends it like an interrupt: it revives the backends first.
func (c *loadCmd) Run(ctx context.Context, o *output) error {
	signal.Ignore(syscall.SIGPIPE) // a broken pipe is an error of the write, not our end
	s, err := c.read()
	if err != nil {
		return usage("reading the scenario: %w", err)
	}
	return loadtest.Generate(ctx, s, o.out)
}

func (c *loadCmd) read() (s loadtest.Scenario, err error) {
	in := os.Stdin
	if c.Scenario != "-" {
		if in, err = os.Open(c.Scenario); err != nil {
			return s, err
		}
		defer in.Close()
	}
	d := json.NewDecoder(io.LimitReader(in, maxScenario))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", c.Scenario, err)
	}
	return s, nil
}
