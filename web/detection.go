package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
)

// detected sums up how the traffic of a cycle was named, and lists what it comes of.
func (s *Server) detected(ctx context.Context, cy orchestrator.Cycle) (v detection.Summary, all []orchestrator.RunDetection, err error) {
	if all, err = s.History.Detections(ctx, cy.ID); err != nil {
		return v, nil, err
	}
	var champion, candidate []detection.Report
	for _, d := range all {
		if d.Arm == orchestrator.ArmCandidate && cy.Kind == orchestrator.Tune { // both arms of a calibration are the champion
			candidate = append(candidate, d.Report)
		} else {
			champion = append(champion, d.Report)
		}
	}
	v = detection.Sum(champion, candidate)
	var told struct {
		Detection advisor.Detection `json:"detection"`
	}
	if json.Unmarshal(cy.Evidence, &told) == nil && told.Detection.Suggestions != nil { // evidence of an earlier release has none
		v.Suggestions = told.Detection.Suggestions
	}
	return v, all, nil
}

func (s *Server) cycleDetection(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	cy, err := s.History.Cycle(ctx, id)
	if err != nil {
		return err
	}
	v, _, err := s.detected(ctx, cy)
	if err != nil {
		return err
	}
	return s.render(c, detectionPage(s.page(fmt.Sprintf("Detection in cycle %d", id), "Cycles"), cy, v))
}

// detectionAnswer is the page's figures, and what they come of.
type detectionAnswer struct {
	detection.Summary
	Runs []orchestrator.RunDetection `json:"runs" doc:"every window of every run: its true state and what it was named"`
}

func (s *Server) apiDetection(ctx context.Context, in *numbered) (*body[detectionAnswer], error) {
	cy, err := s.History.Cycle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	v, all, err := s.detected(ctx, cy)
	return answer(detectionAnswer{v, listed(all, 0).Items}, err)
}
