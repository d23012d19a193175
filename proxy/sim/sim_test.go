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
	s.Measured = cmp.Or(s.Measured, 30*time.Second)
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

// The fastest backend fails, or gets 20 times slower, for 10 s, and recovers; nothing takes it out of the set
// meanwhile, as a health check would. p95 is that of the whole minute.
func TestExpectedCompletionThroughFailureAndRecovery(t *testing.T) {
	faults := map[string][2]func([]*Server){
		"fails":    {func(s []*Server) { s[0].Failing = 1 }, func(s []*Server) { s[0].Failing = 0 }},
		"too slow": {func(s []*Server) { s[0].Slowdown = 20 }, func(s []*Server) { s[0].Slowdown = 1 }},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			setup := Setup{
				Backends: demoBackends(.3, 16), Load: Load{Rate: 150}, Measured: 60 * time.Second,
				Events: []Event{{30 * time.Second, fault[0]}, {40 * time.Second, fault[1]}},
			}
			results := map[balance.Algorithm]Result{}
			for _, a := range append(balance.Algorithms(), Oracle) {
				setup.Algorithm = a
				r := run(t, setup)
				results[a] = r
				t.Logf("%-27s failed %4d of %d, p95 %v, shares %.2f", a, r.Failures, r.Requests, r.Quantile(.95).Round(time.Millisecond), r.Share)
			}
			ours := results[balance.ExpectedCompletion]
			require.LessOrEqual(t, float64(ours.Quantile(.95)), 1.25*float64(results[Oracle].Quantile(.95)))
			require.LessOrEqual(t, ours.Failures, 20, "a burst at first, then a probe every few seconds")
			require.Greater(t, ours.Share[0], 0.6, "it has its share again, as before")
		})
	}
}

// The same seed is the same experiment, to the nanosecond.
func TestRunsRepeat(t *testing.T) {
	s := Setup{Algorithm: balance.P2CPeakEWMA, Backends: demoBackends(.3, 16), Load: Load{Rate: 100}}
	require.Equal(t, run(t, s), run(t, s))
	other := s
	other.Seed = 8
	require.NotEqual(t, run(t, s), run(t, other))
}

func TestUnknownAlgorithm(t *testing.T) {
	_, err := Run(Setup{Algorithm: "FASTEST", Backends: demoBackends(0, 0), Load: Load{Rate: 1}})
	require.ErrorContains(t, err, "FASTEST")
}
