package balance

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const second = int64(time.Second)

// answer is one request to b, alone, that ended at now.
func answer(b *Backend, now int64, took time.Duration, o Outcome) {
	b.End(b.Begin(), now, took, o)
}

func TestInFlightCountsWhateverTheOutcome(t *testing.T) {
	b := NewBackend("a", nil, 1)
	require.Equal(t, Load(1), b.Begin())
	require.Equal(t, Load(2), b.Begin())
	require.Equal(t, Load(3), b.Begin())
	for i, o := range []Outcome{Success, Failure, Aborted} {
		b.End(1, second, time.Second, o)
		require.Equal(t, int64(2-i), b.InFlight())
	}
}

func TestResponseTimeFollowsTheLastSeconds(t *testing.T) {
	b := NewBackend("a", nil, 1)
	require.Zero(t, b.ResponseTime(), "unknown at first")
	now := second
	feed := func(took time.Duration, seconds int) {
		for range seconds * 20 {
			now += second / 20
			answer(b, now, took, Success)
		}
	}
	feed(100*time.Millisecond, 10)
	require.InEpsilon(t, 100*time.Millisecond, b.ResponseTime(), 0.01)
	feed(400*time.Millisecond, 2)
	require.InDelta(t, 290*time.Millisecond, b.ResponseTime(), 1e7, "1 - 1/e of the way after one time constant")
	require.Less(t, b.LongRunAverage(), 150*time.Millisecond, "which the long-run average hardly notices")
	feed(400*time.Millisecond, 1800)
	require.InEpsilon(t, 400*time.Millisecond, b.LongRunAverage(), 0.1)
}

// The long-run average is right at any rate: at 50,000 requests a second single steps would drown in float32.
func TestLongRunAverageAtHighRate(t *testing.T) {
	b := NewBackend("a", nil, 1)
	answer(b, 1, 10*time.Millisecond, Success)
	for i := range int64(500_000) {
		answer(b, i*20_000, 30*time.Millisecond, Success)
	}
	require.InEpsilon(t, 30*time.Millisecond, b.LongRunAverage(), 0.15)
}

func TestWhatIsNotSuccessNeverLooksFast(t *testing.T) {
	for _, o := range []Outcome{Failure, Aborted} {
		b := NewBackend("a", nil, 1)
		answer(b, second, time.Millisecond, o)
		require.Zero(t, b.ResponseTime(), "still unknown")
		answer(b, 2*second, 100*time.Millisecond, Success)
		answer(b, 3*second, time.Millisecond, o)
		require.InEpsilon(t, 100*time.Millisecond, b.ResponseTime(), 1e-6)
		answer(b, 4*second, 10*time.Second, o)
		require.Greater(t, b.ResponseTime(), 3*time.Second, "a timeout is slow")
	}
}

func TestAbortsAreNoFailures(t *testing.T) {
	b := NewBackend("a", nil, 1)
	answer(b, second, time.Second, Aborted)
	require.Equal(t, 1.0, b.trouble.factor(second))
	answer(b, second, time.Second, Failure)
	require.Equal(t, 2.0, b.trouble.factor(second))
}

func TestTroubleGrowsWithFailuresAndGoes(t *testing.T) {
	var x trouble
	for range 30 {
		x.observe(second, true)
	}
	require.Equal(t, 1024.0, x.factor(second), "no worse than that")
	require.InEpsilon(t, 512.0, x.factor(3*second), 1e-3, "half after 2 s")
	require.Equal(t, 1.0, x.factor(60*second))

	var y trouble
	y.observe(second, true)
	for range 4 {
		require.Greater(t, y.factor(second), 1.0)
		y.observe(second, false)
	}
	require.False(t, y.level.known(), "four successes make up for a failure")
}

func TestWarmthIsBroughtIntoItsRange(t *testing.T) {
	b := NewBackend("a", nil, 0)
	require.Equal(t, 1, b.Weight())
	for in, want := range map[float64]float64{0.5: 0.5, 0: 0.01, -3: 0.01, 7: 1, math.Inf(1): 1} {
		b.SetWarmth(in)
		require.Equal(t, want, b.Warmth())
	}
	b.SetWarmth(math.NaN())
	require.Equal(t, 1.0, b.Warmth())
}

// What comes back from a word is what went in, to a float's and a tick's precision, also past 2^48 ns.
func TestEstimateKeepsValueAndAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(1, 1e13).Draw(t, "value")
		at := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "at")
		later := rapid.Int64Range(0, 38*3600*second).Draw(t, "later")
		var e estimate
		e.move(at, v, 1e9, 0)
		got, age := e.read(at + later)
		if math.Abs(got/v-1) > 1e-6 || math.Abs(age-float64(later)) > 1<<tickShift {
			t.Fatalf("%v after %v became %v after %v", v, later, got, age)
		}
		if _, age := e.read(at - later); age > 1<<tickShift {
			t.Fatalf("age %v before the sample", age)
		}
	})
}

func TestDecayIsNearlyExponential(t *testing.T) {
	require.Equal(t, 1.0, decay(0))
	for x := 0.0; x < 20; x += 0.1 {
		require.InDelta(t, math.Exp(-x), decay(x), 0.01)
		require.Greater(t, decay(x), decay(x+0.1))
	}
}

// Updates of many goroutines are neither lost halfway nor torn.
func TestEstimateIsSafeForManyWriters(t *testing.T) {
	var e estimate
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				e.update(second, func(v, _ float64) float64 { return v + 1 })
			}
		})
	}
	wg.Wait()
	require.Equal(t, 8000.0, e.value())
}

// EXPECTED_COMPLETION learns what a backend can do: c slots, s each, first come, first served.
func TestCapacityLearnsServiceTimeAndConcurrency(t *testing.T) {
	for _, slots := range []float64{1, 4, 16, 64} {
		var c capacity
		now := int64(0)
		for i := range 4000 {
			load := 1 + math.Floor(float64(i*7919%1000)/1000*max(24, 3*slots)) // from idle to a queue twice the slots
			now += second / 100
			c.observe(now, load, 1e8*max(1, load/slots))
		}
		require.InEpsilon(t, 1e8, c.service.value(), 0.1, "%v slots", slots)
		require.InEpsilon(t, slots, c.concurrency(), 0.2)
	}
}
