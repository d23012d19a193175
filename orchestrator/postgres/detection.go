package postgres

import (
	"context"
	"fmt"

	"retune/orchestrator"
	"retune/orchestrator/detection"
	"retune/orchestrator/postgres/queries"
)

// SaveDetection stores how the traffic of a run was named, over what was stored of it before.
func (s *Store) SaveDetection(ctx context.Context, run int64, r detection.Report) error {
	b, err := encode(r)
	if err == nil {
		err = s.q.SaveDetection(ctx, queries.SaveDetectionParams{RunID: run, Report: b})
	}
	if err != nil {
		return fmt.Errorf("saving the detection of run %d: %w", run, err)
	}
	return nil
}

// Detections are how the traffic of a cycle's runs was named, in the order of the runs; those whose true states are
// not known are left out.
func (s *Store) Detections(ctx context.Context, cycle int64) ([]orchestrator.RunDetection, error) {
	rows, err := s.q.Detections(ctx, cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the detection of cycle %d: %w", cycle, err)
	}
	list := make([]orchestrator.RunDetection, len(rows))
	for i, r := range rows {
		list[i] = orchestrator.RunDetection{Run: r.ID, Arm: r.Arm, Version: value(r.Version)}
		if err := decode(r.Report, &list[i].Report); err != nil {
			return nil, fmt.Errorf("reading the stored detection of run %d: %w", r.ID, err)
		}
	}
	return list, nil
}
