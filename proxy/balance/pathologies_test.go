package balance_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/sim"
)

// Known pathologies of load balancers, each under the number that it has in our notes, for every algorithm
// that it concerns.

var (
	byResponseTime = []balance.Algorithm{balance.LeastResponseTime, balance.P2CPeakEWMA, balance.ExpectedCompletion}
	byLoad         = append([]balance.Algorithm{balance.LeastConnections, balance.WeightedLeastConnections}, byResponseTime...)
	byTurn         = []balance.Algorithm{balance.RoundRobin, balance.WeightedRoundRobin, balance.Random}
	byHash         = []balance.Algorithm{balance.IPHash, balance.ConsistentHash}
)

// forEach runs a test per algorithm.
func forEach(t *testing.T, algorithms []balance.Algorithm, f func(*testing.T, balance.Algorithm)) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) { f(t, a) })
	}
}

// alike is n modelled backends of 50 ms.
func alike(n, concurrency int) (out []sim.Backend) {
	for i := range n {
		out = append(out, sim.Backend{
			ID: fmt.Sprintf("server-%d", i), Weight: 1, Mean: 50 * time.Millisecond, Sigma: 0.3, Concurrency: concurrency,
		})
	}
	return out
}

func simulate(t *testing.T, s sim.Setup) sim.Result {
	t.Helper()
	s.Seed = 11
	r, err := sim.Run(s)
	require.NoError(t, err)
	return r
}

func backends(n int) (out []*balance.Backend) {
	for i := range n {
		out = append(out, balance.NewBackend(fmt.Sprintf("server-%d", i), nil, 1))
	}
	return out
}

func picker(t *testing.T, a balance.Algorithm, over []*balance.Backend, now *int64) balance.Picker {
	t.Helper()
	p, err := balance.New(a, over, balance.Options{Seed: 1, Now: func() int64 { return *now }})
	require.NoError(t, err)
	return p
}

// answers lets b answer n requests one after the other.
func answers(b *balance.Backend, now *int64, n int, took time.Duration, o balance.Outcome) {
	for range n {
		load := b.Begin()
		*now += int64(took)
		b.End(load, *now, took, o)
	}
}

func begin(b *balance.Backend, n int) {
	for range n {
		b.Begin()
	}
}

// share is the part of n picks, without Begin, that goes to b.
func share(p balance.Picker, b *balance.Backend, n int) float64 {
	hits := 0
	for i := range n {
		if p.Pick(uint64(i)) == b {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// One of four starts to answer 500 in a millisecond: a quarter of the requests would be its fair share.
func TestPA01FastFailureDoesNotAttract(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		r := simulate(t, sim.Setup{Algorithm: a, Backends: alike(4, 0), Load: sim.Load{Rate: 500}, Warm: 10 * time.Second, Measured: 20 * time.Second,
			Events: []sim.Event{{At: 10 * time.Second, Do: func(s []*sim.Server) { s[0].Failing = 1 }}}})
		t.Logf("%d of %d failed", r.Failures, r.Requests)
		require.Less(t, r.Failures, r.Requests/200)
	})
}

// A backend that refuses every connection from the start never has a response time: unknown is not zero.
func TestPA02RefusedBackendWithoutSamplesIsNotTheFastest(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		r := simulate(t, sim.Setup{Algorithm: a, Backends: alike(4, 0), Load: sim.Load{Rate: 500}, Measured: 20 * time.Second,
			Events: []sim.Event{{Do: func(s []*sim.Server) { s[0].Failing, s[0].FailsIn = 1, 200*time.Microsecond }}}})
		t.Logf("%d of %d failed", r.Failures, r.Requests)
		require.Less(t, r.Failures, r.Requests/200)
	})
}

// A backend that was a hundred times too slow for 10 s gets requests again; where it is not found, it gets one
// in three thousand.
func TestPA03StarvedBackendIsFoundAgain(t *testing.T) {
	forEach(t, byResponseTime, func(t *testing.T, a balance.Algorithm) {
		r := simulate(t, sim.Setup{Algorithm: a, Backends: alike(4, 0), Load: sim.Load{Rate: 200}, Warm: 60 * time.Second, Measured: 20 * time.Second,
			Events: []sim.Event{
				{At: 10 * time.Second, Do: func(s []*sim.Server) { s[0].Slowdown = 100 }},
				{At: 20 * time.Second, Do: func(s []*sim.Server) { s[0].Slowdown = 1 }},
			}})
		t.Logf("shares %.2f", r.Share)
		require.Greater(t, r.Share[0], 0.05)
	})
}

// Response times under a millisecond are told apart, and don't hide what is in flight.
func TestPA04ResponseTimesUnderAMillisecond(t *testing.T) {
	forEach(t, byResponseTime, func(t *testing.T, a balance.Algorithm) {
		now := int64(1)
		set := backends(4)
		for i, us := range []time.Duration{400, 600, 1200, 1500} {
			answers(set[i], &now, 50, us*time.Microsecond, balance.Success)
		}
		p := picker(t, a, set, &now)
		require.Greater(t, share(p, set[0], 1000), 0.45, "the fastest, while all are idle")
		require.Zero(t, share(p, set[3], 1000))
		begin(set[0], 100)
		require.Less(t, share(p, set[0], 1000), 0.01, "not any more with 100 in flight")
	})
}

// A burst between two answers spreads: what was picked counts at once.
func TestPA05BurstDoesNotHerd(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		now := int64(1)
		set := backends(4)
		for i := range set {
			answers(set[i], &now, 20, time.Duration(50+i)*time.Millisecond, balance.Success)
		}
		p := picker(t, a, set, &now)
		for range 200 {
			p.Pick(0).Begin()
		}
		for _, b := range set {
			require.InDelta(t, 50, b.InFlight(), 15, b.ID())
		}
	})
}

// A backend in slow start gets about its warmth's share of a fair part: no flood for having nothing in
// flight, and no starvation.
func TestPA06WarmingBackendIsNeitherFloodedNorStarved(t *testing.T) {
	forEach(t, append(byTurn, byLoad...), func(t *testing.T, a balance.Algorithm) {
		r := simulate(t, sim.Setup{Algorithm: a, Backends: alike(4, 0), Load: sim.Load{Clients: 100}, Warm: 2 * time.Second, Measured: 10 * time.Second,
			Events: []sim.Event{{Do: func(s []*sim.Server) { s[0].Balance.SetWarmth(0.2) }}}})
		t.Logf("shares %.3f", r.Share)
		require.Greater(t, r.Share[0], 0.01)
		require.Less(t, r.Share[0], 0.12)
		require.InDelta(t, r.Share[1], r.Share[2], 0.06, "the others share what it leaves")
		require.InDelta(t, r.Share[1], r.Share[3], 0.06)
	})
	forEach(t, byHash, func(t *testing.T, a balance.Algorithm) {
		now := int64(1)
		set := backends(4)
		p := picker(t, a, set, &now)
		before := share(p, set[0], 1000)
		set[0].SetWarmth(0.1)
		require.InDelta(t, before, share(p, set[0], 1000), 0.02, "affinity goes first")
	})
}

// Two are drawn and compared, never the same one twice: the worst of all is never picked. See also TestTwoOf.
func TestPA07TwoChoicesAreTwo(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		for _, n := range []int{2, 100} {
			now := int64(1)
			set := backends(n)
			for _, b := range set {
				answers(b, &now, 10, 50*time.Millisecond, balance.Success)
			}
			answers(set[n/2], &now, 10, 500*time.Millisecond, balance.Success)
			begin(set[n/2], 9)
			require.Zero(t, share(picker(t, a, set, &now), set[n/2], 20_000), "of %d", n)
		}
	})
}

// Wherever the idle one stands in the list, it is chosen over the busy ones.
func TestPA08OrderOfTheListDoesNotMatter(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		for _, n := range []int{2, 5} {
			for idle := range n {
				now := int64(1)
				set := backends(n)
				for i, b := range set {
					answers(b, &now, 10, 50*time.Millisecond, balance.Success)
					if i != idle {
						begin(b, 50+i)
					}
				}
				begin(set[idle], 3)
				least := 1.0
				if a == balance.P2CPeakEWMA && n > 2 {
					least = 2/float64(n) - 0.02 // whenever it is drawn
				}
				require.GreaterOrEqual(t, share(picker(t, a, set, &now), set[idle], 4000), least, "idle at %d of %d", idle, n)
			}
		}
	})
}

// 5:1:1 without the first is 1:1; and what one of three equals had, the other two share.
func TestPA09WeightsAreSharedAnewWithoutOne(t *testing.T) {
	forEach(t, balance.Algorithms(), func(t *testing.T, a balance.Algorithm) {
		for _, weight := range []int{5, 1} {
			now := int64(1)
			set := backends(3)
			set[0].SetWeight(weight)
			require.InDelta(t, 0.5, share(picker(t, a, set[1:], &now), set[1], 7000), 0.05, "weight %d", weight)
		}
	})
}

// Weights hold in every stretch of a cycle: 5:1:1 goes a a b a c a a, not a a a a a b c.
func TestPA10WeightedTurnsAreSpreadOut(t *testing.T) {
	now := int64(1)
	set := backends(3)
	set[0].SetWeight(5)
	p := picker(t, balance.WeightedRoundRobin, set, &now)
	sequence := ""
	for range 14 {
		sequence += string('a' + p.Pick(0).ID()[7] - '0')
	}
	require.Contains(t, sequence, "aabacaa")
	plain := picker(t, balance.WeightedRoundRobin, set[1:], &now)
	require.NotEqual(t, plain.Pick(0), plain.Pick(0), "equal weights are plain round robin")
}

// Among equals nobody is preferred: idle and untried, or all with the same history.
func TestPA11TiesAreNobodys(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		for _, tried := range []bool{false, true} {
			now := int64(1)
			set := backends(4)
			for _, b := range set {
				if tried {
					load := b.Begin()
					b.End(load, 1, 50*time.Millisecond, balance.Success)
				}
			}
			p := picker(t, a, set, &now)
			for _, b := range set {
				require.InDelta(t, 0.25, share(p, b, 8000), 0.03, "tried: %v", tried)
			}
		}
	})
}

// Nor are retries one backend's: the first in the list would get all that a failing one sheds.
func TestPA11TiesOfRetriesAreNobodys(t *testing.T) {
	set := backends(4)
	count := map[*balance.Backend]int{}
	for range 6000 {
		count[balance.Another(set, set[:1])]++
	}
	for _, b := range set[1:] {
		require.InDelta(t, 2000, count[b], 250, b.ID())
	}
}

// A reload builds a new picker; what was learned and what is in flight is in the backends, and stays.
func TestPA13ReloadForgetsNothing(t *testing.T) {
	forEach(t, byLoad, func(t *testing.T, a balance.Algorithm) {
		now := int64(1)
		set := backends(3)
		answers(set[0], &now, 20, 20*time.Millisecond, balance.Success)
		answers(set[1], &now, 20, 30*time.Millisecond, balance.Success)
		answers(set[2], &now, 20, time.Millisecond, balance.Failure)
		begin(set[0], 40)
		require.Equal(t, 1.0, share(picker(t, a, set[:2], &now), set[1], 500), "in flight")
		require.Zero(t, share(picker(t, a, set[1:], &now), set[2], 500), "failures")
		for _, other := range balance.Algorithms() {
			picker(t, other, set, &now)
		}
		require.Equal(t, 1.0, share(picker(t, a, set[:2], &now), set[1], 500), "after a turn through all algorithms")
	})
}

// A retry never goes where the request was already.
func TestPA14RetryGoesElsewhere(t *testing.T) {
	set := backends(3)
	tried := set[:1:1]
	for range 2 {
		next := balance.Another(set, tried)
		require.NotContains(t, tried, next)
		tried = append(tried, next)
	}
	require.Nil(t, balance.Another(set, tried))
}

// One that fails fast has nothing in flight, and doesn't draw the retries of the others for it.
func TestPA14RetriesKeepOffWhatFails(t *testing.T) {
	set := backends(3)
	now := balance.Now()
	answers(set[1], &now, 10, time.Millisecond, balance.Failure)
	begin(set[2], 8)
	require.Equal(t, set[2], balance.Another(set, set[:1]))
	require.Equal(t, set[1], balance.Another(set, []*balance.Backend{set[0], set[2]}), "unless it is the last")
}

// A thousand clients of one network, IPv4 and IPv6, spread over all backends.
func TestPA18ClientsOfOneNetworkSpread(t *testing.T) {
	forEach(t, byHash, func(t *testing.T, a balance.Algorithm) {
		for _, first := range []string{"10.0.0.0", "127.0.0.1", "2001:db8::", "fe80::ff00:0"} {
			now := int64(1)
			p := picker(t, a, backends(4), &now)
			count := map[*balance.Backend]int{}
			for i, addr := 0, netip.MustParseAddr(first); i < 1000; i, addr = i+1, addr.Next() {
				count[p.Pick(balance.Key(addr))]++
			}
			require.Len(t, count, 4)
			for b, n := range count {
				require.InDelta(t, 250, n, 90, "%s on %s", first, b.ID())
			}
		}
	})
}

// 150 virtual nodes with a good hash: the largest part of the ring stays near the mean, whatever the names.
func TestPA19RingIsEven(t *testing.T) {
	for _, name := range []string{"server-%d", "http://127.0.0.1:500%d", "%d", "backend-%03d.example.com:8080"} {
		now := int64(1)
		var set []*balance.Backend
		for i := range 4 {
			set = append(set, balance.NewBackend(fmt.Sprintf(name, i+1), nil, 1+i))
		}
		p := picker(t, balance.ConsistentHash, set, &now)
		for _, b := range set {
			require.InDelta(t, 0.25, share(p, b, 20_000), 0.05, "%s of %s", b.ID(), name)
		}
	}
}
