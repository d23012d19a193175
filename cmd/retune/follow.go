package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"retune/orchestrator"
)

// follow starts a cycle of either kind and shows how it goes until it has ended. When ctx ends it cancels the cycle,
// and waits until the champion is in force again.
func follow(ctx context.Context, o *output, api *apiClient, r orchestrator.Request) (orchestrator.Cycle, error) {
	c, err := followUntil(ctx, o, api, r)
	if ctx.Err() != nil && c.ID != 0 && !c.Status.Ended() {
		return c, cancelCycle(ctx, o, api, c.ID)
	}
	return c, err
}

// followUntil starts a cycle and shows how it goes until it has ended, or ctx has: then it goes on.
func followUntil(ctx context.Context, o *output, api *apiClient, r orchestrator.Request) (started orchestrator.Cycle, err error) {
	var answer struct {
		orchestrator.Cycle
		Outlook *orchestrator.Outlook `json:"outlook"`
	}
	if err := api.call(ctx, http.MethodPost, "/cycles", r, &answer); err != nil {
		return started, err
	}
	started = answer.Cycle
	if answer.Outlook != nil { // before the load
		fmt.Fprintln(o.err, answer.Outlook.Says)
	}
	fmt.Fprintf(o.err, "Cycle %d is queued (%s). Watch it at %s/cycles/%d; Ctrl-C cancels it.\n", started.ID, r.Profile, api.base, started.ID)
	done, err := watch(ctx, o, api, started.ID)
	if err != nil {
		return started, err
	}
	warnOfLoad(ctx, o, api, done.ID)
	return done, nil
}

// cancelCycle asks for a cycle's end and waits for it: the champion is in force again when it returns.
func cancelCycle(ctx context.Context, o *output, api *apiClient, id int64) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	fmt.Fprintln(o.err, "Cancelling; the champion goes back in force.")
	if err := api.call(ctx, http.MethodPost, cyclePath(id)+"/cancel", nil, nil); err != nil {
		return &exitError{exitInterrupted, fmt.Errorf("cancelling cycle %d: %w", id, err)}
	}
	done, err := watch(ctx, &output{o.out, io.Discard}, api, id)
	if err != nil {
		return &exitError{exitInterrupted, err}
	}
	return &exitError{exitInterrupted, fmt.Errorf("cycle %d: %s", id, done.Why)}
}

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
			if failures++; failures == 3 {
				fmt.Fprintf(o.err, "The orchestrator does not answer (%v); waiting for it.\n", err)
			}
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}
