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
	var found []orchestrator.RunSwitch
	for _, r := range runs {
		if !slices.ContainsFunc(decisions, func(d steering.Decision) bool { return d.Switched && during(r.Result, d) }) {
			continue // spares reading its series
		}
		if r, err = s.History.Run(ctx, r.ID); err != nil {
			return nil, err
		}
		for _, sw := range switchlog.Analyse(r.Result, decisions) {
			found = append(found, orchestrator.RunSwitch{Run: r.ID, Switch: sw})
		}
	}
	return found, nil
}

func during(r loadtest.Result, d steering.Decision) bool {
	return !d.At.Before(r.Started) && d.At.Before(r.Started.Add(r.Duration))
}

// cycleSwitches is switches for the API; a cycle that isn't there is an error.
func (s *Server) cycleSwitches(ctx context.Context, cycle int64) ([]orchestrator.RunSwitch, error) {
	runs, err := s.History.Runs(ctx, cycle)
	if err != nil {
		return nil, err
	}
	return s.switches(ctx, runs, cycle)
}
