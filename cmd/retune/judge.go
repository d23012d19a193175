package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
)

// limitFlags are how much worse a candidate may be. What is not given stays as it is by default.
type limitFlags struct {
	P95    string `name:"p95" help:"By how much p95 may rise: 15% or 0.15." placeholder:"15%"`
	RPS    string `name:"rps" help:"By how much RPS may fall: 15% or 0.15." placeholder:"15%"`
	Errors string `name:"errors" help:"By how many percentage points the error rate may rise: 2 or 0.5pp." placeholder:"2"`
}

func (f limitFlags) given() bool { return f != (limitFlags{}) }

// over is limits with those that were given in place of its own.
func (f limitFlags) over(l verdict.Limits) (verdict.Limits, error) {
	l, err := l.With(f.P95, f.RPS, f.Errors)
	if err != nil {
		err = usage("%w", err)
	}
	return l, err
}

// limits are what a cycle is to be started with; zero: the server's own.
func (f limitFlags) limits(ctx context.Context, api *apiClient) (verdict.Limits, error) {
	if !f.given() {
		return verdict.Limits{}, nil
	}
	if _, err := f.over(verdict.DefaultLimits()); err != nil { // before anybody is asked
		return verdict.Limits{}, err
	}
	var status struct {
		Choices struct {
			Limits verdict.Limits `json:"limits"`
		} `json:"choices"`
	}
	if err := api.call(ctx, http.MethodGet, "/status", nil, &status); err != nil {
		return verdict.Limits{}, err
	}
	return f.over(status.Choices.Limits)
}

type cycleJudgeCmd struct {
	cycleArg
	limitFlags
	tableFlags
}

// Help is what --help says below the command's line.
func (*cycleJudgeCmd) Help() string {
	return "The same pairs in the same order, at the same looks, with what was known of the machine's noise then; without load, and " +
		"without a change to what is stored. Limits that are not given are the cycle's own. " +
		"Exit codes: 0 it would have been kept, 3 rolled back, 4 nothing could have been told."
}

// Run judges a stored cycle again and prints what comes out beside what came out then.
func (c *cycleJudgeCmd) Run(ctx context.Context, o *output) error {
	if _, err := c.over(verdict.DefaultLimits()); err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	q := url.Values{}
	for name, text := range map[string]string{"p95": c.P95, "rps": c.RPS, "errors": c.Errors} {
		if text != "" {
			q.Set(name, text)
		}
	}
	var r orchestrator.Rejudgement
	if err := api.call(ctx, http.MethodGet, cyclePath(c.ID)+"/judge?"+q.Encode(), nil, &r); err != nil {
		return err
	}
	if err := c.findings(o, r, r.Verdict.Findings); err != nil {
		return err
	}
	fmt.Fprint(o.err, judged(r, time.Now()))
	if r.Verdict.Outcome == verdict.Undecided { // with the pairs that there are, nothing could be told
		return outcomeError(orchestrator.Inconclusive)
	}
	return outcomeError(orchestrator.Status(r.Verdict.Outcome))
}

// judged is the new verdict, the old one, and what both rest on.
func judged(r orchestrator.Rejudgement, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nCycle %d under %s: %s, %s.\n", r.Cycle, r.Verdict.Limits, words(r.Verdict.Outcome), r.Ending())
	fmt.Fprintf(&b, "  %s\n", r.Verdict.Reason)
	for _, w := range r.Verdict.Warnings {
		fmt.Fprintf(&b, "  %s\n", w)
	}
	stored := "without a verdict"
	if r.Stored != nil {
		stored = fmt.Sprintf("under %s, after %d pairs", r.Stored.Limits, r.Stored.Pairs)
	}
	fmt.Fprintf(&b, "It ended %s, %s. Nothing of that was changed; %s.\n", words(r.Status), stored, r.Origin())
	if basis := r.Noise.Basis(now); basis != "" {
		fmt.Fprintf(&b, "The noise is taken as it was known before the cycle's first pair, %s by now.\n", basis)
	} else {
		fmt.Fprintln(&b, "No noise was known before the cycle's first pair, so none is taken for granted now.")
	}
	return b.String()
}

// words turns a name such as rolled_back into words.
func words[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }
