package balance

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEveryPicker is what all ten promise.
func TestEveryPicker(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			t.Run("an empty set gives nil", func(t *testing.T) {
				require.Nil(t, pickerOf(t, a, nil, Options{}).Pick(1))
			})
			t.Run("only members, never nil", func(t *testing.T) { membersOnly(t, a) })
			t.Run("keeps to the set it was built over", func(t *testing.T) {
				backends := set(3)
				p := pickerOf(t, a, backends, Options{})
				backends[0], backends[1], backends[2] = nil, nil, nil
				require.NotNil(t, p.Pick(7))
			})
			t.Run("safe for eight goroutines", func(t *testing.T) { eightGoroutines(t, a) })
			t.Run("allocates nothing", func(t *testing.T) {
				for _, n := range []int{1, 4, 100} {
					p := pickerOf(t, a, warmSet(n), Options{})
					key := uint64(0)
					require.Zero(t, testing.AllocsPerRun(1000, func() { key++; p.Pick(key) }), "%d backends", n)
				}
			})
			t.Run("alike backends get alike shares", func(t *testing.T) { fair(t, a) })
			t.Run("the same seed picks the same", func(t *testing.T) {
				p, q := pickerOf(t, a, set(9), Options{Seed: 5}), pickerOf(t, a, set(9), Options{Seed: 5})
				for i := range uint64(100) {
					require.Equal(t, p.Pick(i).ID(), q.Pick(i).ID())
				}
			})
		})
	}
}

// membersOnly holds whatever the number, weights, warmth, history and order of picks and ends.
func membersOnly(t *testing.T, a Algorithm) {
	rapid.Check(t, func(t *rapid.T) {
		backends := set(rapid.SampledFrom([]int{1, 2, 3, 4, 7, 64, 65, 130}).Draw(t, "backends"))
		member := map[*Backend]bool{}
		for _, b := range backends {
			member[b] = true
			b.SetWeight(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, math.MaxInt)).Draw(t, "weight"))
			b.SetWarmth(rapid.SampledFrom([]float64{1, 1, 0.5, 0.01}).Draw(t, "warmth"))
		}
		now := int64(1)
		p, err := New(a, backends, Options{Now: func() int64 { return now }, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			b := p.Pick(rapid.Uint64().Draw(t, "key"))
			if !member[b] {
				t.Fatalf("picked %v", b)
			}
			load := b.Begin()
			if rapid.Bool().Draw(t, "ends") {
				took := rapid.Int64Range(0, 1e11).Draw(t, "took")
				now += took
				b.End(load, now, time.Duration(took), Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")))
			}
		}
	})
}

func eightGoroutines(t *testing.T, a Algorithm) {
	backends := set(5)
	p := pickerOf(t, a, backends, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				b := p.Pick(uint64(g*2000 + i))
				b.End(b.Begin(), Now(), time.Duration(i+1), Outcome(i%3))
				b.SetWarmth(1 - float64(i%2)/2)
			}
		})
	}
	wg.Wait()
	for _, b := range backends {
		require.Zero(t, b.InFlight())
	}
}

// fair has requests begin and end in order on backends that are alike.
func fair(t *testing.T, a Algorithm) {
	now := int64(1)
	p := pickerOf(t, a, set(4), Options{Now: func() int64 { return now }, Seed: 3})
	const n, inFlight = 8000, 12
	count := map[string]int{}
	var under []func()
	for i := range uint64(n) {
		b := p.Pick(i)
		count[b.ID()]++
		load := b.Begin()
		under = append(under, func() { b.End(load, now, 50*time.Millisecond, Success) })
		if len(under) > inFlight {
			under[0]()
			under = under[1:]
		}
		now += int64(50*time.Millisecond) / inFlight
	}
	for id, c := range count {
		require.InEpsilon(t, n/4, c, 0.15, "%s: %v", id, count)
	}
}

func TestUnknownAlgorithmListsTheKnown(t *testing.T) {
	_, err := New("ROUND_ROBBIN", nil, Options{})
	require.ErrorContains(t, err, `"ROUND_ROBBIN"`)
	for _, a := range Algorithms() {
		require.ErrorContains(t, err, string(a))
		require.True(t, a.Known())
	}
	require.Len(t, table, len(Algorithms()))
}

// A counter that passes 2^31, 2^63 or 2^64 neither panics nor favours anyone.
func TestCountersPastTheirLimit(t *testing.T) {
	for _, start := range []uint64{math.MaxInt32 - 20, math.MaxUint32 - 20, math.MaxInt64 - 20, math.MaxUint64 - 20} {
		rr := pickerOf(t, RoundRobin, set(4), Options{}).(*roundRobin)
		rr.next.Store(start)
		wrr := pickerOf(t, WeightedRoundRobin, weighted(3, 1), Options{}).(*weightedRoundRobin)
		wrr.next.Store(start)
		require.Equal(t, map[string]int{"server-0": 10, "server-1": 10, "server-2": 10, "server-3": 10}, shares(rr, 40))
		require.Equal(t, map[string]int{"server-0": 30, "server-1": 10}, shares(wrr, 40))
	}
}

// CONSISTENT_HASH counts picks too; its counts are kept small, so they never come near a limit.
func TestConsistentHashForgetsOldPicks(t *testing.T) {
	p := pickerOf(t, ConsistentHash, set(4), Options{}).(*consistentHash)
	for i := range uint64(100_000) {
		p.Pick(i)
		require.Less(t, p.total.Load(), int64(4*countsPerBackend))
	}
	sum := int64(0)
	for i := range p.picks {
		sum += p.picks[i].Load()
	}
	require.InDelta(t, p.total.Load(), sum, 8)
}

func TestWeightsAreKept(t *testing.T) {
	require.Equal(t, map[string]int{"server-0": 600, "server-1": 300, "server-2": 200, "server-3": 100},
		shares(pickerOf(t, WeightedRoundRobin, weighted(6, 3, 2, 1), Options{}), 1200))
	idle := shares(pickerOf(t, WeightedLeastConnections, weighted(6, 3, 2, 1), Options{Seed: 1}), 12_000)
	for i, want := range []int{6000, 3000, 2000, 1000} {
		require.InEpsilon(t, want, idle[fmt.Sprintf("server-%d", i)], 0.1)
	}
}

// Requests that only begin fill the backends in proportion to their weights.
func TestWeightedLeastConnectionsFillsByWeight(t *testing.T) {
	backends := weighted(6, 3, 2, 1)
	p := pickerOf(t, WeightedLeastConnections, backends, Options{})
	for range 120 {
		p.Pick(0).Begin()
	}
	for _, b := range backends {
		require.InDelta(t, 10*b.Weight(), b.InFlight(), 1)
	}
}

// Weights up to the largest number build quickly, and keep their proportion as well as a cycle can.
func TestHugeWeights(t *testing.T) {
	require.Equal(t, map[string]int{"server-0": 200, "server-1": 100},
		shares(pickerOf(t, WeightedRoundRobin, weighted(math.MaxInt-1, (math.MaxInt-1)/2), Options{}), 300))
	got := shares(pickerOf(t, WeightedRoundRobin, weighted(1_000_003, 2_000_003, 1), Options{}), 65_536)
	require.InEpsilon(t, 2, float64(got["server-1"])/float64(got["server-0"]), 0.01)
	require.Equal(t, 1, got["server-2"])
}

// Losing a backend moves its own clients only; getting it back restores each.
func TestConsistentHashMovesOnlyTheLostBackendsClients(t *testing.T) {
	backends := set(5)
	all, less := pickerOf(t, ConsistentHash, backends, Options{}), pickerOf(t, ConsistentHash, backends[1:], Options{})
	again := pickerOf(t, ConsistentHash, backends, Options{})
	for i := range uint64(4000) {
		before := all.Pick(i)
		require.Equal(t, before, again.Pick(i))
		if after := less.Pick(i); before != backends[0] {
			require.Equal(t, before, after, "key %d", i)
		}
	}
}

// One client that sends everything, or a few: nobody takes more than 1.25 times the mean.
func TestConsistentHashBoundsTheLoadOfHotClients(t *testing.T) {
	for _, clients := range []uint64{1, 2, 3} {
		backends := set(4)
		p := pickerOf(t, ConsistentHash, backends, Options{})
		for i := range uint64(20_000) {
			p.Pick(i % clients).Begin()
		}
		for _, b := range backends {
			require.LessOrEqual(t, b.InFlight(), int64(1.26*20_000/4), "%d clients", clients)
		}
	}
}

func TestKey(t *testing.T) {
	v4, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	require.Equal(t, Key(v4), Key(mapped))
	require.Equal(t, Key(netip.MustParseAddr("fe80::1")), Key(netip.MustParseAddr("fe80::1%eth0")))
	// fixed for ever: another value would move every client at an upgrade
	require.Equal(t, uint64(16013880969964817392), Key(v4))
	require.Equal(t, uint64(10948565182480546536), Key(netip.MustParseAddr("2001:db8::1")))
	require.NotPanics(t, func() { Key(netip.Addr{}) })
}

func TestAnother(t *testing.T) {
	b := set(3)
	b[1].Begin()
	require.Equal(t, b[2], Another(b, b[:1]))
	require.Equal(t, b[1], Another(b, []*Backend{b[2], b[0]}))
	require.Nil(t, Another(b, b))
	require.Nil(t, Another(nil, nil))
	require.Zero(t, testing.AllocsPerRun(100, func() { Another(b, b[:2]) }))
}

// Each ordered pair of distinct numbers is drawn as often as any other.
func TestTwoOf(t *testing.T) {
	d := newDice(1)
	count := map[[2]int]int{}
	for range 120_000 {
		i, j := twoOf(4, d.roll())
		count[[2]int{i, j}]++
	}
	require.Len(t, count, 12)
	for pair, n := range count {
		require.NotEqual(t, pair[0], pair[1])
		require.InEpsilon(t, 10_000, n, 0.05, "%v", pair)
	}
}
