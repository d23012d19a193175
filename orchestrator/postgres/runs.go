package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres/queries"
)

// SaveRun stores a run with its series and returns its number. ErrLost when its cycle is not this instance's any more.
func (s *Store) SaveRun(ctx context.Context, r orchestrator.Run) (id int64, err error) {
	p, err := s.runParams(r)
	if err == nil {
		err = s.tx(ctx, func(q *queries.Queries) (err error) {
			if _, err := s.own(ctx, q, r.CycleID); err != nil {
				return err
			}
			if id, err = q.InsertRun(ctx, p); err != nil {
				return err
			}
			_, err = q.InsertSeries(ctx, seriesParams(id, r.Result.Series))
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("saving a run of %s: %w", r.Scenario, err)
	}
	return id, nil
}

// SetAside adds a reason why a stored run is no evidence.
func (s *Store) SetAside(ctx context.Context, run int64, why string) error {
	n, err := s.q.SetAside(ctx, queries.SetAsideParams{ID: run, Why: clean(why)})
	if err == nil && n == 0 {
		err = orchestrator.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("setting run %d aside: %w", run, err)
	}
	return nil
}

func (s *Store) runParams(r orchestrator.Run) (queries.InsertRunParams, error) {
	res := r.Result
	marks, errMarks := encode(res.Marks)
	counts, errCounts := encode(res.Status)
	return queries.InsertRunParams{
		CycleID: r.CycleID, Machine: s.options.Machine, Scenario: clean(r.Scenario), HoldOut: r.HoldOut, Arm: r.Arm, Pair: r.Pair, Version: null(r.Version),
		Proposal:  null(r.Proposal),
		Algorithm: r.Algorithm, Seed: int64(r.Seed), Driver: res.Driver, DriverVersion: clean(res.DriverVersion),
		StartedAt: res.Started, DurationNs: int64(res.Duration),
		Planned: res.Planned, Requests: res.Requests, Failed: res.Failed, Dropped: res.Dropped, Rps: res.RPS, ErrorRate: res.ErrorRate,
		AvgMs: res.AvgMS, P50Ms: res.P50MS, P90Ms: res.P90MS, P95Ms: res.P95MS, P99Ms: res.P99MS, MaxMs: res.MaxMS,
		Marks: marks, StatusCounts: counts, Histogram: res.Histogram,
		ExitCode: res.ExitCode, DriverCpu: res.DriverCPU, Log: cleanAll(res.Log), Invalid: cleanAll(res.Invalid),
	}, errors.Join(errMarks, errCounts)
}

// seriesMetrics are the parts of a second that are stored, each as one array.
var seriesMetrics = []struct {
	name string
	get  func(loadtest.Second) float64
	set  func(*loadtest.Second, float64)
}{
	{"requests", func(s loadtest.Second) float64 { return float64(s.Requests) }, func(s *loadtest.Second, v float64) { s.Requests = int64(v) }},
	{"failed", func(s loadtest.Second) float64 { return float64(s.Failed) }, func(s *loadtest.Second, v float64) { s.Failed = int64(v) }},
	{"dropped", func(s loadtest.Second) float64 { return float64(s.Dropped) }, func(s *loadtest.Second, v float64) { s.Dropped = int64(v) }},
	{"avg_ms", func(s loadtest.Second) float64 { return s.AvgMS }, func(s *loadtest.Second, v float64) { s.AvgMS = v }},
	{"p50_ms", func(s loadtest.Second) float64 { return s.P50MS }, func(s *loadtest.Second, v float64) { s.P50MS = v }},
	{"p95_ms", func(s loadtest.Second) float64 { return s.P95MS }, func(s *loadtest.Second, v float64) { s.P95MS = v }},
	{"p99_ms", func(s loadtest.Second) float64 { return s.P99MS }, func(s *loadtest.Second, v float64) { s.P99MS = v }},
}

// seriesParams are a run's series by metric. A point has seven digits, counts up to 16 million are exact.
func seriesParams(run int64, series []loadtest.Second) []queries.InsertSeriesParams {
	list := make([]queries.InsertSeriesParams, len(seriesMetrics))
	for i, m := range seriesMetrics {
		points := make([]float32, len(series))
		for k, second := range series {
			points[k] = float32(m.get(second))
		}
		list[i] = queries.InsertSeriesParams{RunID: run, Metric: m.name, Points: points}
	}
	return list
}

// toSeries is the inverse of seriesParams.
func toSeries(rows []queries.RunSeries) []loadtest.Second {
	points := map[string][]float32{}
	n := 0
	for _, r := range rows {
		points[r.Metric] = r.Points
		n = max(n, len(r.Points))
	}
	series := make([]loadtest.Second, n)
	for _, m := range seriesMetrics {
		for k, v := range points[m.name] {
			m.set(&series[k], decimal(v))
		}
	}
	return series
}

// decimal is the shortest decimal that the stored point stands for: 12.34, not 12.340000152587891.
func decimal(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64) // what was just formatted parses
	return v
}

// Runs are a cycle's runs in their order, without series and histogram.
func (s *Store) Runs(ctx context.Context, cycle int64) ([]orchestrator.Run, error) {
	rows, err := s.q.Runs(ctx, cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the runs of cycle %d: %w", cycle, err)
	}
	list := make([]orchestrator.Run, len(rows))
	for i, r := range rows {
		if list[i], err = toRun(r); err != nil {
			return nil, err
		}
		list[i].Result.Histogram = nil
	}
	return list, nil
}

// Run is one run with its series; ErrNotFound when there is none of that number.
func (s *Store) Run(ctx context.Context, id int64) (orchestrator.Run, error) {
	row, err := s.q.Run(ctx, id)
	if err != nil {
		return orchestrator.Run{}, fmt.Errorf("reading run %d: %w", id, found(err))
	}
	r, err := toRun(row)
	if err != nil {
		return orchestrator.Run{}, err
	}
	series, err := s.q.Series(ctx, id)
	if err != nil {
		return orchestrator.Run{}, fmt.Errorf("reading the series of run %d: %w", id, err)
	}
	r.Result.Series = toSeries(series)
	return r, nil
}

func toRun(r queries.Run) (orchestrator.Run, error) {
	run := orchestrator.Run{
		ID: r.ID, CycleID: r.CycleID, Scenario: r.Scenario, HoldOut: r.HoldOut, Arm: r.Arm, Pair: r.Pair, Version: value(r.Version), Proposal: value(r.Proposal),
		Algorithm: r.Algorithm, Seed: uint64(r.Seed),
		Result: loadtest.Result{
			Scenario: r.Scenario, Driver: r.Driver, DriverVersion: r.DriverVersion, Started: r.StartedAt, Duration: time.Duration(r.DurationNs),
			Planned: r.Planned, Requests: r.Requests, Failed: r.Failed, Dropped: r.Dropped, RPS: r.Rps, ErrorRate: r.ErrorRate,
			AvgMS: r.AvgMs, P50MS: r.P50Ms, P90MS: r.P90Ms, P95MS: r.P95Ms, P99MS: r.P99Ms, MaxMS: r.MaxMs,
			Histogram: r.Histogram, ExitCode: r.ExitCode, DriverCPU: r.DriverCpu, Log: r.Log, Invalid: r.Invalid,
		},
	}
	if err := errors.Join(decode(r.Marks, &run.Result.Marks), decode(r.StatusCounts, &run.Result.Status)); err != nil {
		return orchestrator.Run{}, fmt.Errorf("reading what is stored of run %d: %w", r.ID, err)
	}
	return run, nil
}
