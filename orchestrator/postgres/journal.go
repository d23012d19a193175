package postgres

import (
	"context"
	"errors"
	"fmt"

	"retune/orchestrator/postgres/queries"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// SaveJournal stores decisions and snapshots, all or none; reading the same ones again stores nothing twice. cycle
// and run 0: not part of one; a later reading that knows them adds them.
func (s *Store) SaveJournal(ctx context.Context, cycle, run int64, d []steering.Decision, snapshots []traffic.Snapshot) error {
	decisions, err := decisionParams(cycle, run, d)
	if err != nil {
		return fmt.Errorf("saving decisions: %w", err)
	}
	seen, err := snapshotParams(cycle, run, snapshots)
	if err != nil {
		return fmt.Errorf("saving snapshots: %w", err)
	}
	err = s.tx(ctx, func(q *queries.Queries) error {
		return errors.Join(execAll(q.SaveDecision(ctx, decisions)), execAll(q.SaveSnapshot(ctx, seen)))
	})
	if err != nil {
		return fmt.Errorf("saving what the proxies recorded: %w", err)
	}
	return nil
}

// execAll runs a batch to its first error; those after it only say that the transaction is lost.
func execAll(b interface{ Exec(f func(int, error)) }) (first error) {
	b.Exec(func(_ int, err error) {
		if first == nil {
			first = err
		}
	})
	return first
}

func decisionParams(cycle, run int64, list []steering.Decision) ([]queries.SaveDecisionParams, error) {
	params := make([]queries.SaveDecisionParams, len(list))
	for i, d := range list {
		gates, err := encode(d.Gates)
		if err != nil {
			return nil, err
		}
		snapshot, err := encode(d.Snapshot)
		if err != nil {
			return nil, err
		}
		params[i] = queries.SaveDecisionParams{
			BootID: d.BootID, Seq: int64(d.Seq), At: d.At, CycleID: null(cycle), RunID: null(run),
			State: d.State, PreviousState: d.PreviousState, Algorithm: d.Algorithm, PreviousAlgorithm: d.PreviousAlgorithm,
			Switched: d.Switched, Confidence: d.Confidence, Reason: clean(d.Reason), Gates: gates,
			RulesVersion: d.RulesVersion, Cause: d.Cause, Snapshot: snapshot,
		}
	}
	return params, nil
}

func snapshotParams(cycle, run int64, list []traffic.Snapshot) ([]queries.SaveSnapshotParams, error) {
	params := make([]queries.SaveSnapshotParams, len(list))
	for i, sn := range list {
		b, err := encode(sn)
		if err != nil {
			return nil, err
		}
		params[i] = queries.SaveSnapshotParams{At: sn.At, Seq: int64(sn.Seq), CycleID: null(cycle), RunID: null(run), Snapshot: b}
	}
	return params, nil
}

// Decisions are what the proxies decided during a cycle, oldest first.
func (s *Store) Decisions(ctx context.Context, cycle int64) ([]steering.Decision, error) {
	rows, err := s.q.Decisions(ctx, &cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the decisions of cycle %d: %w", cycle, err)
	}
	list := make([]steering.Decision, len(rows))
	for i, r := range rows {
		list[i] = steering.Decision{
			Seq: uint64(r.Seq), BootID: r.BootID, At: r.At, State: r.State, PreviousState: r.PreviousState,
			Algorithm: r.Algorithm, PreviousAlgorithm: r.PreviousAlgorithm, Switched: r.Switched, Confidence: r.Confidence,
			Reason: r.Reason, RulesVersion: r.RulesVersion, Cause: r.Cause,
		}
		if err := errors.Join(decode(r.Gates, &list[i].Gates), decode(r.Snapshot, &list[i].Snapshot)); err != nil {
			return nil, fmt.Errorf("reading the stored decision %d of %s: %w", r.Seq, r.BootID, err)
		}
	}
	return list, nil
}

// Snapshots are what the proxies measured during a cycle, oldest first.
func (s *Store) Snapshots(ctx context.Context, cycle int64) ([]traffic.Snapshot, error) {
	rows, err := s.q.Snapshots(ctx, &cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots of cycle %d: %w", cycle, err)
	}
	list := make([]traffic.Snapshot, len(rows))
	for i, b := range rows {
		if err := decode(b, &list[i]); err != nil {
			return nil, fmt.Errorf("reading a stored snapshot of cycle %d: %w", cycle, err)
		}
	}
	return list, nil
}
