package sim

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
)

// demoBackends are the four of the demo: 50, 150, 300 and 500 ms, weights 6:3:2:1.
func demoBackends(sigma float64, concurrency int) []Backend {
	var out []Backend
	for i, ms := range []int{50, 150, 300, 500} {
		out = append(out, Backend{
			ID: fmt.Sprintf("server-%d", i+1), Weight: []int{6, 3, 2, 1}[i],
			Mean: time.Duration(ms) * time.Millisecond, Sigma: sigma, Concurrency: concurrency,
		})
	}
	return out
}

func run(t *testing.T, s Setup) Result {
	t.Helper()
	s.Warm, s.Seed = cmp.Or(s.Warm, 20*time.Second), cmp.Or(s.Seed, 7)
	s.Measured = cmp.Or(s.Measured, 40*time.Second)
	r, err := Run(s)
	require.NoError(t, err)
	return r
}

// The reference load: 100 clients with 100 ms of think time and many addresses, backends that never queue.
// The published ratios of throughput to ROUND_ROBIN hold within 8%.
func TestThroughputRatiosOfTheReferenceLoad(t *testing.T) {
	rps := map[balance.Algorithm]float64{}
	var table strings.Builder
	for _, a := range append(balance.Algorithms(), Oracle) {
		r := run(t, Setup{Algorithm: a, Backends: demoBackends(0, 0), Load: Load{Clients: 100, Think: 100 * time.Millisecond}})
		rps[a] = r.RPS
		fmt.Fprintf(&table, "%-27s %6.1f rps  %.2f  p95 %v\n", a, r.RPS, r.RPS/rps[balance.RoundRobin], r.Quantile(.95))
	}
	t.Log("\n" + table.String())
	for a, want := range map[balance.Algorithm]float64{
		balance.WeightedRoundRobin: 1.37, balance.LeastConnections: 1.49, balance.IPHash: 1.00, balance.ConsistentHash: 0.99,
	} {
		require.InEpsilon(t, want, rps[a]/rps[balance.RoundRobin], 0.08, "%s", a)
	}
}

// Four backends with 16 slots each under open load. The limit is 1.25 times what somebody who sees the queues
// would reach, and no other algorithm may be better by more than 5%.
func TestExpectedCompletionIsNearTheOracle(t *testing.T) {
	loads := map[string]Load{
		"100 rps":     {Rate: 100},
		"300 rps":     {Rate: 300},
		"400 rps":     {Rate: 400},
		"100 clients": {Clients: 100, Think: 100 * time.Millisecond},
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			p95 := map[balance.Algorithm]time.Duration{}
			for _, a := range append(balance.Algorithms(), Oracle) {
				p95[a] = run(t, Setup{Algorithm: a, Backends: demoBackends(.3, 16), Load: load}).Quantile(.95)
				t.Logf("%-27s p95 %v", a, p95[a].Round(time.Millisecond))
			}
			ours := float64(p95[balance.ExpectedCompletion])
			require.LessOrEqual(t, ours, 1.25*float64(p95[Oracle]))
			for _, a := range balance.Algorithms() {
				require.LessOrEqual(t, ours, 1.05*float64(p95[a]), "%s", a)
			}
		})
	}
}

// The fastest backend fails fast for 10 s, then recovers; it is not taken out of the set, as if there were no
// health check.
func TestExpectedCompletionThroughFailureAndRecovery(t *testing.T) {
	for _, a := range append(balance.Algorithms(), Oracle) {
		r := run(t, Setup{Algorithm: a, Backends: demoBackends(.3, 16), Load: Load{Rate: 150}, Measured: 60 * time.Second,
			Events: []Event{
				{30 * time.Second, func(s []*Server) { s[0].Failing = 1 }},
				{40 * time.Second, func(s []*Server) { s[0].Failing = 0 }},
			}})
		t.Logf("%-27s failed %5d of %5d, p95 %v p99 %v share %.2f", a, r.Failures, r.Requests, r.Quantile(.95).Round(time.Millisecond), r.Quantile(.99).Round(time.Millisecond), r.Share)
	}
}

func TestSlow(t *testing.T) {
	for _, a := range append(balance.Algorithms(), Oracle) {
		r := run(t, Setup{Algorithm: a, Backends: demoBackends(.3, 16), Load: Load{Rate: 150}, Measured: 60 * time.Second,
			Events: []Event{
				{30 * time.Second, func(s []*Server) { s[0].Slowdown = 20 }},
				{40 * time.Second, func(s []*Server) { s[0].Slowdown = 1 }},
			}})
		t.Logf("%-27s failed %5d of %5d, p95 %v p99 %v share %.2f", a, r.Failures, r.Requests, r.Quantile(.95).Round(time.Millisecond), r.Quantile(.99).Round(time.Millisecond), r.Share)
	}
}
