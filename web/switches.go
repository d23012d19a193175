package web

import (
	"context"
	"slices"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/switchlog"
	"retune/proxy/steering"
)

// switches is what each switch within a cycle's runs brought.
func (s *Server) switches(ctx context.Context, runs []orchestrator.Run, cycle int64) ([]orchestrator.RunSwitch, error) {
	decisions, err := s.History.Decisions(ctx, cycle)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(decisions, func(d steering.Decision) bool { return d.Switched }) {
		return nil, nil // spares reading every run's series
	}
	results := make([]loadtest.Result, len(runs))
	for i, r := range runs {
		if r, err = s.History.Run(ctx, r.ID); err != nil {
			return nil, err
		}
		results[i] = r.Result
	}
	var found []orchestrator.RunSwitch
	for i, of := range switchlog.Analyse(results, decisions) {
		for _, sw := range of {
			found = append(found, orchestrator.RunSwitch{Run: runs[i].ID, Switch: sw})
		}
	}
	return found, nil
}

// cycleSwitches is switches for the API; a cycle that isn't there is an error.
func (s *Server) cycleSwitches(ctx context.Context, cycle int64) ([]orchestrator.RunSwitch, error) {
	runs, err := s.History.Runs(ctx, cycle)
	if err != nil {
		return nil, err
	}
	return s.switches(ctx, runs, cycle)
}
