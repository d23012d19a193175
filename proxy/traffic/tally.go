package traffic

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// Outcome is how a request ended. The first three have the values of balance.Outcome.
type Outcome uint8

// The outcomes.
const (
	// Success is an answer that arrived whole and below 500; it alone gives a latency sample: a failure's time
	// would make a broken backend look fast.
	Success Outcome = iota
	// Failure is a refused or broken connection, a timeout or a 5xx.
	Failure
	// Aborted is a request that the client gave up: a request, but no error and no latency sample.
	Aborted
	// Retried is a failed attempt that was tried again elsewhere: an error of its backend, but neither a
	// request nor an error of the proxy.
	Retried
)

const (
	perWindow = 20              // buckets of a window
	ringSize  = 2*perWindow + 2 // two windows, the bucket being filled, and the next one
	histSize  = perWindow + 2   // histograms are needed for one window only
	emptying  = -1              // in place of a cell's tick while its last figures are thrown away
)

// Tally counts one backend's requests. Each is counted in one of several shards, chosen at random, so that
// threads seldom write to the same memory: two to three uncontended atomic additions and no lock.
type Tally struct {
	grid   *atomic.Pointer[grid] // the window's
	shards []shard

	// Guarded by Window.mu.
	norm     norm
	folded   int64 // the last tick that norm has taken in
	reported bool  // named by the last snapshot's caller
	asked    bool  // for, since the last snapshot: it is kept for another one
}

// shard is a ring of buckets, and a shorter ring of their histograms. Counts may be off by the one request of a
// goroutine that was suspended in the middle of Record for two whole windows.
type shard struct {
	cells [ringSize]cell
	hists [histSize][bins]atomic.Uint32
}

// cell is the counts of one bucket.
type cell struct {
	tick  atomic.Int64 // which bucket: see grid; 0: none yet
	sumUS atomic.Int64 // of successes
	ended [Retried + 1]atomic.Uint32
}

func newTally(g *atomic.Pointer[grid]) *Tally {
	return &Tally{grid: g, shards: make([]shard, Shards())}
}

// Shards is into how many parts a counter is worth dividing that every request adds to: as many as there are threads,
// at most 8, and a power of two.
func Shards() int {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 8 {
		n *= 2
	}
	return n
}

// Record counts one request that has just ended, at now on the monotonic clock in nanoseconds. Safe for
// concurrent use, lock-free, allocates nothing.
func (t *Tally) Record(now int64, elapsed time.Duration, o Outcome) {
	tick := t.grid.Load().tick(now)
	for {
		s := &t.shards[rand.Uint32()&uint32(len(t.shards)-1)]
		c := &s.cells[tick%ringSize]
		have := c.tick.Load()
		if have > tick {
			return // older than two windows
		}
		if have == tick || s.open(c, have, tick) {
			c.ended[min(o, Retried)].Add(1)
			if o == Success {
				c.sumUS.Add(int64(elapsed / time.Microsecond))
				s.hists[tick%histSize][bin(elapsed)].Add(1)
			}
			return
		}
		runtime.Gosched() // another thread is emptying the cell
	}
}

// open empties a cell for a new bucket; false when another thread is at it.
func (s *shard) open(c *cell, have, tick int64) bool {
	if have == emptying || !c.tick.CompareAndSwap(have, emptying) {
		return false
	}
	c.sumUS.Store(0)
	for i := range c.ended {
		c.ended[i].Store(0)
	}
	h := &s.hists[tick%histSize]
	for i := range h {
		h[i].Store(0)
	}
	c.tick.Store(tick)
	return true
}

// sums is what a span of buckets adds up to.
type sums struct {
	ended [Retried + 1]uint64
	sumUS int64
}

// sum adds up the buckets from tick from to tick to, both included.
func (t *Tally) sum(from, to int64) sums {
	var r sums
	for i := range t.shards {
		for tick := max(from, 1); tick <= to; tick++ {
			c := &t.shards[i].cells[tick%ringSize]
			if c.tick.Load() != tick {
				continue
			}
			r.sumUS += c.sumUS.Load()
			for o := range r.ended {
				r.ended[o] += uint64(c.ended[o].Load())
			}
		}
	}
	return r
}

// ErrorRate is the share of attempts that failed, of those that ended within the last window; 0 of none.
func (t *Tally) ErrorRate(now int64) float64 {
	tick := t.grid.Load().tick(now)
	s := t.sum(tick-perWindow+1, tick)
	return rate(s.ended[Failure]+s.ended[Retried], s.attempts())
}

// histogram adds up the histograms of the buckets from..to, which lie within one window.
func (t *Tally) histogram(from, to int64) *Histogram {
	h := new(Histogram)
	for i := range t.shards {
		s := &t.shards[i]
		for tick := max(from, 1); tick <= to; tick++ {
			if s.cells[tick%ringSize].tick.Load() != tick {
				continue
			}
			for b := range h {
				h[b] += uint64(s.hists[tick%histSize][b].Load())
			}
		}
	}
	return h
}

// attempts is everything that reached the backend.
func (s *sums) attempts() uint64 { return s.requests() + s.ended[Retried] }

// requests is what clients asked for.
func (s *sums) requests() uint64 { return s.ended[Success] + s.ended[Failure] + s.ended[Aborted] }

func (s *sums) add(o sums) {
	s.sumUS += o.sumUS
	for i, n := range o.ended {
		s.ended[i] += n
	}
}

// avgMS is the mean latency of the successes; 0 without any.
func (s *sums) avgMS() float64 {
	if s.ended[Success] == 0 {
		return 0
	}
	return float64(s.sumUS) / 1000 / float64(s.ended[Success])
}

// rate is a / b as a share; 0 of nothing.
func rate(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
