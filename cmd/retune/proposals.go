package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"retune/orchestrator"
)

type cycleProposalsCmd struct {
	cycleArg
	tableFlags
}

// Run prints who took part in a cycle's tournament, who was dropped and why, and the score in the screening.
func (c *cycleProposalsCmd) Run(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	var page struct {
		Items []orchestrator.Proposal `json:"items"`
	}
	if err := api.call(ctx, http.MethodGet, cyclePath(c.ID)+"/proposals", nil, &page); err != nil {
		return err
	}
	var rows [][]string
	screened := false
	for _, p := range page.Items {
		version, score := "", ""
		if p.Version != 0 {
			version = fmt.Sprintf("v%d", p.Version)
		}
		if p.Screening != nil {
			screened = true
			score = fmt.Sprintf("%+.2f ± %.2f", p.Screening.Score, 2*p.Screening.Noise)
		}
		rows = append(rows, []string{strconv.Itoa(p.Number), p.Author, string(p.Fate), version, score, strings.Join(p.Changes, "; "), p.Why})
	}
	if err := c.print(o, page.Items, []string{"no.", "author", "fate", "version", "score", "changes", "why"}, rows, "no.", "score"); err != nil {
		return err
	}
	if screened {
		fmt.Fprintln(o.err, "Scores are of the screening, in units of the verdict's limits; negative is better than the champion. They only choose: the judge never sees them.")
	}
	return nil
}
