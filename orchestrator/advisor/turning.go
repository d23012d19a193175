package advisor

import (
	"math"
	"slices"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// maxPoints bounds how many turning points one run gives.
const maxPoints = 12

// TurningPoints thins the snapshots of one run, which began at start, out to where the traffic turned: the first,
// the last, each change of state or algorithm, and wherever RPS or p95 has moved by 20% or the error rate by a point
// since the last one kept. At most 12; when there are more, the turns must be larger. Snapshots before start belong
// to the warm phase and are left out.
func TurningPoints(scenario string, start time.Time, snapshots []traffic.Snapshot) []Point {
	var run []traffic.Snapshot
	for _, s := range snapshots {
		if !s.At.Before(start) {
			run = append(run, s)
		}
	}
	slices.SortStableFunc(run, func(a, b traffic.Snapshot) int { return a.At.Compare(b.At) })
	kept := turns(run, 1)
	for coarse := 1.5; len(kept) > maxPoints && coarse < 100; coarse *= 1.5 {
		kept = turns(run, coarse)
	}
	var out []Point
	for _, s := range evenly(kept, maxPoints) {
		out = append(out, pointOf(scenario, start, s))
	}
	return out
}

// turns keeps the snapshots that differ enough from the last one kept; coarse scales what is enough.
func turns(run []traffic.Snapshot, coarse float64) []traffic.Snapshot {
	var out []traffic.Snapshot
	for i, s := range run {
		if i == 0 || i == len(run)-1 || turned(out[len(out)-1], s, coarse) {
			out = append(out, s)
		}
	}
	return out
}

func turned(last, s traffic.Snapshot, coarse float64) bool {
	return s.State != last.State || s.Algorithm != last.Algorithm ||
		moved(last.RPS, s.RPS) > 0.2*coarse || moved(last.P95MS, s.P95MS) > 0.2*coarse ||
		math.Abs(s.ErrorRate-last.ErrorRate) > 0.01*coarse
}

// moved is by how much b differs from a, as a share of the larger.
func moved(a, b float64) float64 {
	if a == b {
		return 0
	}
	return math.Abs(b-a) / max(math.Abs(a), math.Abs(b))
}

// evenly takes at most n of x, spread over all of it, the first and the last among them.
func evenly[T any](x []T, n int) []T {
	if len(x) <= n {
		return x
	}
	if n <= 1 {
		return x[:max(n, 0)]
	}
	out := make([]T, n)
	for i := range out {
		out[i] = x[i*(len(x)-1)/(n-1)]
	}
	return out
}

func pointOf(scenario string, start time.Time, s traffic.Snapshot) Point {
	return Point{
		Scenario: scenario, AtS: s.At.Sub(start).Round(time.Millisecond).Seconds(),
		RPS: s.RPS, RPSChangeRate: s.RPSChangeRate, AvgLatencyMS: s.AvgLatencyMS, P95MS: s.P95MS, ErrorRate: s.ErrorRate,
		State: s.State, Algorithm: balance.Algorithm(s.Algorithm),
	}
}
