package main

import (
	"context"
	"fmt"
	"net/http"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

// runHealth is a run as the API has it, with how well its load was made.
type runHealth struct {
	orchestrator.Run
	Health []loadtest.Check `json:"health"`
}

// shownWarnings is how many warnings of a cycle's load are printed; its page has them all.
const shownWarnings = 5

// warnOfLoad says which runs of a cycle were no evidence, or nearly none, why, and what to do.
func warnOfLoad(ctx context.Context, o *output, api *apiClient, cycle int64) {
	var page struct {
		Items []runHealth `json:"items"`
	}
	if api.call(ctx, http.MethodGet, cyclePath(cycle)+"/runs", nil, &page) != nil {
		return // the verdict is what was asked for; the page has the rest
	}
	var said int
	for _, r := range page.Items {
		for _, text := range r.warnings() {
			if said++; said <= shownWarnings {
				fmt.Fprintf(o.err, "Warning: run %d (%s): %s\n", r.ID, r.what(), text)
			}
		}
	}
	if more := said - shownWarnings; more > 0 {
		fmt.Fprintf(o.err, "… and %d warnings more, at %s%s\n", more, api.base, cyclePath(cycle))
	}
}

// warnings are why the run is no evidence, or what is near its bound.
func (r runHealth) warnings() (all []string) {
	for _, why := range r.Result.Invalid {
		all = append(all, "no evidence. "+why)
	}
	for _, c := range r.Health {
		if c.State == loadtest.Near {
			all = append(all, "near a bound. "+c.Says)
		}
	}
	return all
}

// what names the run.
func (r runHealth) what() string {
	text := r.Scenario + ", " + string(r.Arm)
	if r.Algorithm != "" {
		text += " " + string(r.Algorithm)
	}
	if r.Pair > 0 {
		text += fmt.Sprintf(", pair %d", r.Pair)
	}
	return text
}
