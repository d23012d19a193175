package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"retune/orchestrator"
)

type cyclesCmd struct {
	Run       cycleCmd          `cmd:"" default:"withargs" help:"Run one feedback cycle and wait for its verdict."`
	List      cycleListCmd      `cmd:"" help:"List the cycles, newest first."`
	Show      cycleShowCmd      `cmd:"" help:"Show a cycle: its verdict, its switches and whether they paid, how the traffic was named."`
	Watch     cycleWatchCmd     `cmd:"" help:"Watch a cycle until it has ended, and show its verdict; Ctrl-C leaves it running."`
	Judge     cycleJudgeCmd     `cmd:"" help:"Judge a cycle's pairs again under other limits, without load."`
	Proposals cycleProposalsCmd `cmd:"" help:"Show what was proposed in a cycle, what became of each and why."`
	Cancel    cycleCancelCmd    `cmd:"" help:"Cancel a cycle; the champion goes back in force."`
}

type cycleListCmd struct {
	Limit int `help:"How many at most." default:"20"`
	tableFlags
	serverFlags
}

func (c *cycleListCmd) Run(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	var page struct {
		Items []orchestrator.Cycle `json:"items"`
	}
	if err := api.call(ctx, http.MethodGet, fmt.Sprintf("/cycles?limit=%d", c.Limit), nil, &page); err != nil {
		return err
	}
	var rows [][]string
	for _, k := range page.Items {
		candidate := ""
		if k.Candidate != 0 {
			candidate = fmt.Sprintf("v%d", k.Candidate)
		}
		rows = append(rows, []string{strconv.FormatInt(k.ID, 10), string(k.Kind), string(k.Status), string(k.Profile), k.Generator, candidate,
			k.Created.Local().Format("2006-01-02 15:04"), k.Why})
	}
	return c.print(o, page.Items, []string{"cycle", "kind", "status", "profile", "generator", "candidate", "created", "why"}, rows, "cycle")
}

// cycleArg names one cycle.
type cycleArg struct {
	ID int64 `arg:"" help:"The cycle's number."`
	serverFlags
}

type cycleWatchCmd struct {
	cycleArg
	tableFlags
}

func (c *cycleWatchCmd) Run(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	done, err := watch(ctx, o, api, c.ID)
	if err != nil {
		return err
	}
	warnOfLoad(ctx, o, api, done.ID)
	return (&cycleCmd{tableFlags: c.tableFlags}).result(o, done, noiseFoot(ctx, api, done))
}

type cycleCancelCmd struct{ cycleArg }

func (c *cycleCancelCmd) Run(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if err := api.call(ctx, http.MethodPost, cyclePath(c.ID)+"/cancel", nil, nil); err != nil {
		return err
	}
	done, err := watch(ctx, o, api, c.ID)
	if err == nil {
		_, err = fmt.Fprintf(o.out, "cycle %d: %s: %s\n", done.ID, done.Status, done.Why)
	}
	return err
}
