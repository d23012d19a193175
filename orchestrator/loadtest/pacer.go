package loadtest

import (
	"math"
	"sync"
	"time"
)

// maxLate is how late a request may start; one that is due longer is dropped. No target can hold an open load up: it is
// the driver itself that lags, for want of CPU, and it must not pass its own lag off as the target's latency.
const maxLate = 250 * time.Millisecond

// pacer is vegeta's Pacer for a timeline: an open load, whose requests start when they are due and not when earlier
// ones have been answered. While limit requests are under way, those that fall due are dropped and counted.
type pacer struct {
	timeline
	limit   int64
	started func(began time.Time)   // called once, before the first request
	dropped func(due time.Duration) // called for each request that is dropped
	next    int64                   // of the timeline; only Pace uses it

	mu    sync.Mutex      // guards all below
	began time.Time       // by vegeta's clock
	due   []time.Duration // of each request handed out, in the order of vegeta's sequence
	done  int64           // requests that have ended
}

// Pace says how long to wait before the next request; see vegeta.Pacer. vegeta calls it from one goroutine. While the
// limit is reached it waits itself: whether a request can be started is known only when it is due.
func (p *pacer) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	p.start(elapsed)
	for ; p.next < p.total; p.next++ {
		due := p.timeline.due(p.next)
		if !p.free(hits) && due > elapsed {
			time.Sleep(due - elapsed)
			elapsed = due
		}
		if p.free(hits) && elapsed-due <= maxLate {
			p.next++
			p.hand(due)
			return max(0, due-elapsed), false
		}
		p.dropped(due)
	}
	return 0, true
}

// start sets the clock at the first call: vegeta does not tell when it began.
func (p *pacer) start(elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now().Add(-elapsed)
		p.started(p.began)
	}
}

// free says whether another request may be started, when hits have been.
func (p *pacer) free(hits uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(hits)-p.done < p.limit
}

// hand records when the request that is handed out next is due.
func (p *pacer) hand(due time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = append(p.due, due)
}

// Rate is part of vegeta.Pacer; an attack does not ask for it.
func (p *pacer) Rate(time.Duration) float64 { return math.NaN() }

// at is the instant of an offset into the timeline.
func (p *pacer) at(due time.Duration) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began.Add(due)
}

// end records the end of the request with that sequence number; it says when it was due, and how many are under way.
func (p *pacer) end(seq uint64) (due time.Duration, underWay int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	return p.due[seq], int64(len(p.due)) - p.done
}
