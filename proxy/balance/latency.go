package balance

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// DefaultDecay is P2C_PEAK_EWMA's decay where a rule gives none.
	DefaultDecay = 10 * time.Second

	// recentTau is the time constant of the smoothed response time, in nanoseconds: long enough to average
	// dozens of requests, short enough to see an overload while it is one.
	recentTau = 2e9
	// longRunTau is that of the long-run average, longRunStep how often it is moved: each request alone
	// would be too small a step for a float32.
	longRunTau  = 600e9
	longRunStep = 100e6

	// An estimate that nobody refreshed for staleAfter shrinks with the time constant staleTau, so that a
	// backend that was slow is tried again: ten times slower than the best after 10 s, 100 times after 15 s.
	staleAfter = 5e9
	staleTau   = 2e9
)

// latency is what a backend's answers took, averaged in three ways; values are nanoseconds.
type latency struct {
	recent  estimate // of the last seconds
	peak    estimate // jumps to each new worst, decays from there (P2C_PEAK_EWMA)
	longRun estimate
	born    atomic.Int64  // instant of the first answer
	decay   atomic.Uint64 // float64 bits: time constant of peak, in nanoseconds
}

func (l *latency) known() bool { return l.recent.known() }

func (l *latency) setDecay(d time.Duration) { l.decay.Store(math.Float64bits(float64(d))) }

func (l *latency) peakTau() float64 { return math.Float64frombits(l.decay.Load()) }

func (l *latency) observe(now int64, took float64) {
	l.recent.move(now, took, recentTau, 0)
	l.observePeak(now, took)
	l.observeLongRun(now)
}

// observePeak follows Finagle's PeakEwma: up at once, down with time.
func (l *latency) observePeak(now int64, took float64) {
	tau := l.peakTau()
	l.peak.update(now, func(v, age float64) float64 {
		if took > v {
			return took
		}
		return v + (took-v)*(1-decay(age/tau))
	})
}

// observeLongRun moves the long-run average towards the recent one: a plain average over time for the first
// ten minutes, a moving one after that.
func (l *latency) observeLongRun(now int64) {
	v, age := l.longRun.read(now)
	if v != 0 && age < longRunStep {
		return
	}
	l.born.CompareAndSwap(0, now)
	lived := max(float64(now-l.born.Load()), longRunStep)
	recent := l.recent.value()
	l.longRun.update(now, func(v, age float64) float64 {
		if v == 0 {
			return recent
		}
		return v + (recent-v)*min(1, age/min(lived, longRunTau))
	})
}
