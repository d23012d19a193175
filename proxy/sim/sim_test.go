package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

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
		r := run(t, Setup{Algorithm: a, Backends: DemoBackends(0, 0), Load: Load{Clients: 100, Think: 100 * time.Millisecond}})
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

// goals are how near EXPECTED_COMPLETION comes to the limit, and to the best of the other nine: its 95th percentile
// at most that many times as long. Those of the demo backends were set beforehand; the rest are what it does.
var goals = map[string]struct{ limit, others float64 }{
	"reference": {1.25, 1.05}, "100 rps": {1.25, 1.05}, "300 rps": {1.25, 1.05}, "400 rps": {1.25, 1.05},
	"100 clients": {1.25, 1.05}, "failure": {1.25, 1.05}, "burst": {1.25, 1.05},
	"six others": {1.25, 1.05}, "alike": {1.25, 1.05}, "long tail": {1.25, 1.05},
	"one slot": {1.8, 1.5}, // with so few requests it takes long to learn that one slot is all
}

// The seeds are not those that it was made with. In a closed loop the throughput counts too: it is some 4.5% below the
// best with 100 clients, for a tail that is 30% shorter.
func TestExpectedCompletionIsNearTheLimit(t *testing.T) {
	rows, err := Compare(t.Context(), Reference(), Fixed(balance.Algorithms()), []uint64{201, 202, 203})
	require.NoError(t, err)
	p95, rps := map[string]map[balance.Algorithm]float64{}, map[string]map[balance.Algorithm]float64{}
	for _, r := range rows {
		name := r.Scenario.Name
		if p95[name] == nil {
			p95[name], rps[name] = map[balance.Algorithm]float64{}, map[balance.Algorithm]float64{}
		}
		p95[name][r.Arm.Algorithm] = r.Median(func(r Result) float64 { return float64(r.Quantile(.95)) / 1e6 })
		rps[name][r.Arm.Algorithm] = r.Median(func(r Result) float64 { return r.RPS })
		t.Logf("%-12s %-27s p95 %6.0f ms, %4.0f rps", name, r.Arm.Name, p95[name][r.Arm.Algorithm], rps[name][r.Arm.Algorithm])
	}
	require.Len(t, p95, len(goals))
	for name, goal := range goals {
		ours := p95[name][balance.ExpectedCompletion]
		require.LessOrEqual(t, ours, goal.limit*p95[name][Oracle], name)
		for _, a := range balance.Algorithms() {
			require.LessOrEqual(t, ours, goal.others*p95[name][a], "%s: %s", name, a)
			require.GreaterOrEqual(t, rps[name][balance.ExpectedCompletion], 0.94*rps[name][a], "%s: throughput of %s", name, a)
		}
	}
}

// The fastest backend fails, or gets 20 times slower, for 10 s, and recovers; nothing takes it out of the set
// meanwhile, as a health check would. p95 is that of the whole minute. The oracle is the selfish one.
func TestExpectedCompletionThroughFailureAndRecovery(t *testing.T) {
	faults := map[string][2]func([]*Server){
		"fails":    {func(s []*Server) { s[0].Failing = 1 }, func(s []*Server) { s[0].Failing = 0 }},
		"too slow": {func(s []*Server) { s[0].Slowdown = 20 }, func(s []*Server) { s[0].Slowdown = 1 }},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			setup := Setup{
				Backends: DemoBackends(.3, 16), Load: Load{Rate: 150}, Measured: 60 * time.Second,
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

// Sixteen backends, of which a pick compares three, do nearly as well for their load as four, which are all compared:
// two drawn at random alone fill the slow ones without end, and leave the fast ones idle.
func TestALargeSetIsUsedAsWellAsASmallOne(t *testing.T) {
	for _, a := range []balance.Algorithm{balance.LeastConnections, balance.LeastResponseTime, balance.ExpectedCompletion} {
		four := DemoBackends(.3, 16)
		var sixteen []Backend
		for i := range 16 {
			b := four[i%4]
			b.ID = fmt.Sprintf("server-%d", i+1)
			sixteen = append(sixteen, b)
		}
		small := run(t, Setup{Algorithm: a, Backends: four, Load: Load{Rate: 400}})
		large := run(t, Setup{Algorithm: a, Backends: sixteen, Load: Load{Rate: 1600}, Measured: 10 * time.Second})
		t.Logf("%s: p95 %v of four, %v of sixteen", a, small.Quantile(.95), large.Quantile(.95))
		require.LessOrEqual(t, float64(large.Quantile(.95)), 1.25*float64(small.Quantile(.95)), "%s", a)
	}
}

// The same seed is the same experiment, to the nanosecond.
func TestRunsRepeat(t *testing.T) {
	s := Setup{Algorithm: balance.P2CPeakEWMA, Backends: DemoBackends(.3, 16), Load: Load{Rate: 100}}
	require.Equal(t, run(t, s), run(t, s))
	other := s
	other.Seed = 8
	require.NotEqual(t, run(t, s), run(t, other))
}

func TestUnknownAlgorithm(t *testing.T) {
	_, err := Run(Setup{Algorithm: "FASTEST", Backends: DemoBackends(0, 0), Load: Load{Rate: 1}})
	require.ErrorContains(t, err, "FASTEST")
}

// Whatever is refused for want of room in a queue fails at once.
func TestAFullQueueRefuses(t *testing.T) {
	one := Backend{ID: "a", Weight: 1, Mean: time.Second, Concurrency: 1, Queue: 2}
	r := run(t, Setup{Algorithm: balance.RoundRobin, Backends: []Backend{one}, Load: Load{Rate: 10}})
	require.InDelta(t, 1, r.RPS, 0.1)
	require.InDelta(t, 0.9, r.ErrorRate(), 0.03)
	require.LessOrEqual(t, r.Quantile(1), 3*time.Second, "itself, and two before it")
}

func TestCompareStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Compare(ctx, Reference(), Fixed(balance.Algorithms()), []uint64{1})
	require.ErrorIs(t, err, context.Canceled)
}

// Each scenario's name is its own, and each runs.
func TestReference(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Reference() {
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Description)
	}
}

func TestHeapSorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap
		in := rapid.SliceOf(rapid.Int64()).Draw(t, "in")
		for _, x := range in {
			h.push(entry{at: x})
		}
		slices.Sort(in)
		for _, want := range in {
			if got := h.pop().at; got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
		}
	})
}

// Rules switch on the virtual clock as they do in the proxy: a burst is a SPIKE, and its algorithm is put in force
// while it lasts. With the same algorithm in every state nothing ever switches.
func TestRulesSteer(t *testing.T) {
	var scenario Scenario
	for _, s := range Reference() {
		if s.Name == "burst" {
			scenario = s
		}
	}
	rs := rules.Default()
	rs.Detection.Window, rs.Switching.Cooldown, rs.Switching.SpikeSustainedWindows = 2*time.Second, 2*time.Second, 1
	for state := range rs.Rules {
		rs.Rules[state] = rules.Rule{Algorithm: balance.RoundRobin}
	}
	setup := scenario.Setup
	setup.Rules = &rs
	still := run(t, setup)
	require.Zero(t, still.Switches)

	spiky := rs
	spiky.Rules = maps.Clone(rs.Rules)
	spiky.Rules[traffic.Spike] = rules.Rule{Algorithm: balance.LeastResponseTime}
	setup.Rules = &spiky
	r := run(t, setup)
	require.GreaterOrEqual(t, r.Switches, 2, "there and back")
	require.Less(t, r.Quantile(.95), still.Quantile(.95))
}
