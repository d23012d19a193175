package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/proxy/steering"
)

const (
	cyclesPerPage = 25
	// searchDepth bounds how many cycles a filter looks through for one page.
	searchDepth = 1000
)

func cyclePath(id int64) string { return "/cycles/" + strconv.FormatInt(id, 10) }

// cyclesView is one page of the list.
type cyclesView struct {
	Cycles []orchestrator.Cycle
	Status string // the filter; empty: all
	Next   int64  // before=; 0: this is the last page
}

func (s *Server) cycles(c echo.Context) error {
	before, err := queryID(c, "before")
	if err != nil {
		return err
	}
	v := cyclesView{Status: c.QueryParam("status")}
	if v.Cycles, v.Next, err = s.cyclesWith(c.Request().Context(), v.Status, cyclesPerPage, before); err != nil {
		return err
	}
	return s.render(c, cyclesPage(s.page("Cycles", "Cycles"), v))
}

// cyclesWith lists the newest cycles of a status before the one given, at most limit, and where the next page starts.
func (s *Server) cyclesWith(ctx context.Context, status string, limit int, before int64) (found []orchestrator.Cycle, next int64, err error) {
	for seen := 0; seen < searchDepth; {
		batch, err := s.History.Cycles(ctx, limit+1, before)
		if err != nil {
			return nil, 0, err
		}
		for _, cy := range batch {
			if status != "" && string(cy.Status) != status {
				continue
			}
			if len(found) == limit {
				return found, found[limit-1].ID, nil
			}
			found = append(found, cy)
		}
		if len(batch) <= limit {
			return found, 0, nil
		}
		seen += len(batch)
		before = batch[len(batch)-1].ID
	}
	return found, before, nil
}

// cycleView is everything that is known of one cycle.
type cycleView struct {
	liveView
	Pointer   orchestrator.Pointer
	Runs      []orchestrator.Run
	Calls     []advisor.Call
	Proposals []orchestrator.Proposal
	Spending  Spending
	// Unsupported is how many figures of the candidate's reasons are not in the evidence.
	Unsupported int
	Switches    []orchestrator.RunSwitch
	Detected    detection.Summary
	Noise       noiseView // that its verdict rests on
	Again       *againView
	Outlook     *orchestrator.Outlook // of one that is under way
}

func (s *Server) cycle(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	v, err := s.cycleView(c.Request().Context(), id)
	if err != nil {
		return err
	}
	v.Again = judgeAgain(v, c.Request().URL.RawQuery)
	return s.renderStatus(c, v.Again.status(), cyclePage(s.page(fmt.Sprintf("Cycle %d", id), "Cycles"), v))
}

func (s *Server) cycleView(ctx context.Context, id int64) (v cycleView, err error) {
	cy, err := s.History.Cycle(ctx, id)
	if err != nil {
		return v, err
	}
	if v.liveView, err = s.liveView(ctx, cy); err != nil {
		return v, err
	}
	if v.Pointer, err = s.History.Pointer(ctx); err != nil && !errors.Is(err, orchestrator.ErrNotFound) {
		return v, err
	}
	if v.Runs, err = s.History.Runs(ctx, id); err != nil {
		return v, err
	}
	if v.Calls, err = s.History.Calls(ctx, id); err != nil {
		return v, err
	}
	if v.Proposals, err = s.History.Proposals(ctx, id); err != nil {
		return v, err
	}
	if v.Spending, err = s.spending(ctx, id); err != nil {
		return v, err
	}
	if v.Unsupported, err = s.unsupported(ctx, cy.Candidate); err != nil {
		return v, err
	}
	if !cy.Status.Ended() {
		v.Outlook = first(s.outlooks(ctx, cy.Request))
		return v, nil
	}
	if v.Switches, err = s.switches(ctx, v.Runs, id); err != nil {
		return v, err
	}
	if v.Detected, _, err = s.detected(ctx, cy); err != nil {
		return v, err
	}
	v.Noise, err = s.noiseThen(ctx, cy)
	return v, err
}

// cycleDecisions lists the decisions that the proxy took during a cycle.
func (s *Server) cycleDecisions(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.History.Cycle(ctx, id); err != nil {
		return err
	}
	decisions, err := s.History.Decisions(ctx, id)
	if err != nil {
		return err
	}
	onlySwitches := c.QueryParam("show") == "switches"
	if onlySwitches {
		decisions = slices.DeleteFunc(decisions, func(d steering.Decision) bool { return !d.Switched })
	}
	return s.render(c, decisionsPage(s.page(fmt.Sprintf("Decisions of cycle %d", id), "Cycles"), id, decisions, onlySwitches))
}

// indented is JSON for reading; what isn't JSON comes back as it is.
func indented(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
