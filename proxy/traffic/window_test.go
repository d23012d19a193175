package traffic

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is a window on a virtual clock.
type clock struct {
	*Window
	now  int64
	live []Live
}

func newClock(length time.Duration, ids ...string) *clock {
	c := &clock{now: 1_000_000}
	c.Window = NewWindow(c.now, length, 6)
	for _, id := range ids {
		c.live = append(c.live, Live{ID: id, Healthy: true})
	}
	return c
}

// run sends rps requests per second to a backend, evenly, for a span, and moves the clock on.
func (c *clock) run(id string, span time.Duration, rps float64, latency time.Duration, o Outcome) {
	t, n := c.Backend(id), int(math.Round(span.Seconds()*rps))
	for i := range n {
		t.Record(c.now+int64(span)*int64(i)/int64(n), latency, o)
	}
	c.now += int64(span)
}

func (c *clock) snapshot() Snapshot {
	return c.Snapshot(c.now, epoch.Add(time.Duration(c.now)), c.live)
}

func TestWindowSumsExactlyOneWindow(t *testing.T) {
	c := newClock(10*time.Second, "a", "b")
	c.run("a", 10*time.Second, 20, 100*time.Millisecond, Success)
	first := c.snapshot()
	require.EqualValues(t, 1, first.Seq)
	require.EqualValues(t, 200, first.Requests)
	require.Equal(t, 20.0, first.RPS)
	require.Nil(t, first.RPSChangeRate, "the first window has nothing to be compared with")
	require.False(t, first.FromZero)
	require.Equal(t, 100.0, first.AvgLatencyMS)
	require.InDelta(t, 100, first.P95MS, 7)
	require.Len(t, first.Backends, 2)
	require.EqualValues(t, 0, first.Backends[1].Requests)

	c.run("b", 10*time.Second, 30, 200*time.Millisecond, Success)
	second := c.snapshot()
	require.EqualValues(t, 300, second.Requests, "nothing of the window before")
	require.Equal(t, 20.0, second.PreviousRPS)
	require.InDelta(t, 0.5, *second.RPSChangeRate, 1e-12)
	require.Equal(t, 200.0, second.AvgLatencyMS)
}

func TestWindowSlides(t *testing.T) {
	c := newClock(10*time.Second, "a")
	c.run("a", 10*time.Second, 10, time.Millisecond, Success)
	c.run("a", 5*time.Second, 30, time.Millisecond, Success)
	s := c.snapshot()
	require.Equal(t, 20.0, s.RPS, "half a window of 10 and half of 30")
	require.Nil(t, s.RPSChangeRate, "the window before isn't complete")
}

func TestWindowBeforeIsFull(t *testing.T) {
	c := newClock(10*time.Second, "a")
	c.run("a", time.Second, 40, time.Millisecond, Success)
	s := c.snapshot()
	require.Equal(t, 40.0, s.RPS, "over the second that has passed")
	early := newClock(10*time.Second, "a")
	require.Zero(t, early.snapshot().RPS)
}

func TestWindowFromNothing(t *testing.T) {
	c := newClock(2*time.Second, "a")
	c.now += int64(2 * time.Second)
	c.snapshot()
	c.now += int64(2 * time.Second)
	idle := c.snapshot()
	require.Zero(t, *idle.RPSChangeRate, "nothing after nothing is no change")
	c.run("a", 2*time.Second, 50, time.Millisecond, Success)
	s := c.snapshot()
	require.True(t, s.FromZero)
	require.Nil(t, s.RPSChangeRate)
	b, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(b), `"rps_change_rate":null,"from_zero":true`)
}

func TestOutcomesCountWhereTheyBelong(t *testing.T) {
	c := newClock(time.Second, "a", "b")
	a, b, none := c.Backend("a"), c.Backend("b"), c.Backend("")
	for range 10 {
		a.Record(c.now, 50*time.Millisecond, Success)
		a.Record(c.now, time.Millisecond, Failure)
		a.Record(c.now, time.Hour, Aborted)
		a.Record(c.now, time.Millisecond, Retried)
		b.Record(c.now, 150*time.Millisecond, Success)
		none.Record(c.now, 0, Failure)
	}
	c.now += int64(time.Second)
	s := c.snapshot()
	require.EqualValues(t, 50, s.Requests, "an attempt that was tried again elsewhere is no second request")
	require.EqualValues(t, 20, s.Errors)
	require.Equal(t, 100.0, s.AvgLatencyMS, "of successes alone")
	require.EqualValues(t, 40, s.Backends[0].Requests)
	require.EqualValues(t, 20, s.Backends[0].Errors, "its failures and the attempts that were retried; not the aborted")
	require.Equal(t, 50.0, s.Backends[0].AvgLatencyMS)
	require.Len(t, s.Backends, 2, "the requests that reached no backend are in the totals alone")
}

func TestResetStartsAnew(t *testing.T) {
	c := newClock(10*time.Second, "a")
	for range 4 {
		c.run("a", 10*time.Second, 20, 100*time.Millisecond, Success)
		c.snapshot()
	}
	require.Equal(t, 100.0, c.snapshot().Backends[0].LongAvgLatencyMS)
	c.Reset(c.now)
	require.Zero(t, c.snapshot().Requests)
	c.run("a", 10*time.Second, 5, time.Millisecond, Success)
	s := c.snapshot()
	require.EqualValues(t, 50, s.Requests)
	require.Nil(t, s.RPSChangeRate)
	require.Zero(t, s.LatencySlope)
	require.Zero(t, s.Backends[0].LongAvgLatencyMS)
}

func TestResizeKeepsWhatItCan(t *testing.T) {
	c := newClock(10*time.Second, "a")
	for range 3 {
		c.run("a", 10*time.Second, 20, 100*time.Millisecond, Success)
		c.snapshot()
	}
	c.Resize(c.now, 10*time.Second, 3)
	require.EqualValues(t, 200, c.snapshot().Requests, "the same length keeps every count")
	c.Resize(c.now, 2*time.Second, 3)
	require.Zero(t, c.snapshot().Requests)
	require.Equal(t, 100.0, c.snapshot().Backends[0].LongAvgLatencyMS)
	c.run("a", 2*time.Second, 10, 100*time.Millisecond, Success)
	require.EqualValues(t, 20, c.snapshot().Requests)
}

func TestBackendsComeAndGo(t *testing.T) {
	c := newClock(time.Second, "a", "b")
	kept := c.Backend("a")
	c.run("a", time.Second, 10, time.Millisecond, Success)
	c.run("b", time.Second, 10, time.Millisecond, Success)
	c.live = c.live[1:] // a is removed while its last requests still are in the window before
	s := c.snapshot()
	require.Equal(t, 10.0, s.PreviousRPS)
	require.Len(t, s.Backends, 1)
	require.Same(t, kept, c.Backend("a"), "a reload that brings it back finds its figures")
	c.now += int64(3 * time.Second)
	c.snapshot() // kept once more: who asked for it may not have been able to name it yet
	c.snapshot()
	require.NotSame(t, kept, c.Backend("a"), "idle for two windows and not named: forgotten")
}

func TestLongRunAverageLagsBehind(t *testing.T) {
	c := newClock(10*time.Second, "a")
	c.run("a", 10*time.Second, 20, 300*time.Millisecond, Success)
	require.Zero(t, c.snapshot().Backends[0].LongAvgLatencyMS, "unknown: a window isn't compared with itself")
	for range 5 {
		c.run("a", 10*time.Second, 20, 300*time.Millisecond, Success)
		require.InDelta(t, 300, c.snapshot().Backends[0].LongAvgLatencyMS, 1e-9)
	}
	for range 8 { // slowed three times for 80 s: still more than twice the usual
		c.run("a", 10*time.Second, 20, 900*time.Millisecond, Success)
		b := c.snapshot().Backends[0]
		require.GreaterOrEqual(t, b.AvgLatencyMS, 2*b.LongAvgLatencyMS)
	}
	for range 120 { // 20 minutes: that is how it is now
		c.run("a", 10*time.Second, 20, 900*time.Millisecond, Success)
		c.snapshot()
	}
	require.InDelta(t, 900, c.snapshot().Backends[0].LongAvgLatencyMS, 20)
}

func TestLatencySlopeIsPerWindow(t *testing.T) {
	c := newClock(time.Second, "a")
	for i := range 10 {
		c.run("a", time.Second, 100, time.Duration(50+7*i)*time.Millisecond, Success)
		s := c.snapshot()
		if i >= 2 {
			require.InDelta(t, 7, s.LatencySlope, 1e-9)
		}
		require.InDelta(t, s.LatencySlope, c.snapshot().LatencySlope, 1e-9, "a second look changes nothing")
	}
}

func TestRisingNeedsBoth(t *testing.T) {
	c, steady := newClock(time.Second, "a"), newClock(time.Second, "a")
	var rising []int
	for i := range 8 {
		latency := time.Duration(50+5*i) * time.Millisecond
		c.run("a", time.Second, 100*math.Pow(1.1, float64(i)), latency, Success)
		rising = append(rising, c.snapshot().Rising)
		steady.run("a", time.Second, 100, latency, Success)
		require.Zero(t, steady.snapshot().Rising, "latency alone")
	}
	require.Equal(t, []int{0, 0, 1, 2, 3, 4, 5, 6}, rising)
}

func TestQuantilesAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.SliceOfN(rapid.IntRange(0, 90_000_000), 1, 300).Draw(t, "us")
		var h Histogram
		for _, v := range us {
			h.Add(time.Duration(v) * time.Microsecond)
		}
		slices.Sort(us)
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			i := max(int(math.Ceil(q*float64(len(us))))-1, 0)
			want := float64(us[i]) / 1000
			if got := h.QuantileMS(q); math.Abs(got-want) > want/sub+0.001 {
				t.Fatalf("q%v: got %v ms, want %v within a bin", q, got, want)
			}
		}
	})
}

func TestBinsCoverEveryDuration(t *testing.T) {
	for i := range bins {
		us := edge(i)
		require.Equal(t, i, bin(time.Duration(us)*time.Microsecond), "lower edge %v µs", us)
		if i >= sub {
			require.LessOrEqual(t, (edge(i+1)-us)/us, 1.0/sub)
		}
	}
	require.Equal(t, 0, bin(-time.Second))
	require.Equal(t, bins-1, bin(math.MaxInt64))
}

// Every request is counted once, whatever the threads do, while snapshots run beside them.
func TestRecordLosesNothing(t *testing.T) {
	const workers, each = 4, 20_000
	w := NewWindow(0, time.Second, 6)
	ta := w.Backend("a")
	var now atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				ta.Record(now.Add(10_000), time.Millisecond, Success) // 80,000 of them span 0.8 s, 16 buckets
			}
		})
	}
	for range 50 {
		w.Snapshot(now.Load(), epoch, []Live{{ID: "a"}})
	}
	wg.Wait()
	s := w.Snapshot(int64(time.Second), epoch, []Live{{ID: "a"}})
	require.EqualValues(t, workers*each, s.Requests)
	require.Equal(t, 1.0, s.AvgLatencyMS)
}

func TestRecordAllocatesNothing(t *testing.T) {
	w := NewWindow(0, time.Second, 6)
	ta, now := w.Backend("a"), int64(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now += int64(time.Millisecond)
		ta.Record(now, time.Millisecond, Success)
	}))
}

func TestAnySnapshotMarshals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock(rapid.SampledFrom([]time.Duration{200 * time.Millisecond, time.Second, 10 * time.Second}).Draw(t, "length"), "a", "b")
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				c.Reset(c.now)
			}
			c.run(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "backend"),
				time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "span")),
				rapid.Float64Range(0, 50).Draw(t, "rps"),
				time.Duration(rapid.Int64Range(-1, int64(2*time.Hour)).Draw(t, "latency")),
				rapid.SampledFrom([]Outcome{Success, Failure, Aborted, Retried, 200}).Draw(t, "outcome"))
			s := c.snapshot()
			if _, err := json.Marshal(s); err != nil {
				t.Fatal(err)
			}
			if s.Errors > s.Requests || s.ErrorRate > 1 || s.P50MS > s.P99MS {
				t.Fatalf("figures that can't be: %+v", s)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	w := NewWindow(0, 10*time.Second, 6)
	ta := w.Backend("a")
	var threads atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		now := threads.Add(1)
		for pb.Next() {
			now += 1000
			ta.Record(now, 3*time.Millisecond, Success)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	c := newClock(10*time.Second, "a", "b", "c", "d")
	for _, l := range c.live {
		c.Backend(l.ID).Record(c.now, time.Millisecond, Success)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.snapshot()
	}
}

// A backend may come between what the caller knows of its backends and the snapshot that takes it.
func TestABackendThatComesDuringASnapshotIsCounted(t *testing.T) {
	for name, before := range map[string]bool{"new": false, "back again": true} {
		c := newClock(time.Second, "a")
		if before {
			c.Backend("b")
			c.run("a", time.Second, 10, time.Millisecond, Success)
			c.snapshot()
		}
		c.run("a", 2*time.Second, 10, time.Millisecond, Success)
		b := c.Backend("b")
		c.snapshot()
		c.live = append(c.live, Live{ID: "b", Healthy: true})
		for range 30 {
			b.Record(c.now, time.Millisecond, Success)
		}
		c.now += int64(time.Second)
		s := c.snapshot()
		require.EqualValues(t, 30, s.Backends[1].Requests, name)
		require.EqualValues(t, 30, s.Requests, name)
	}
}
