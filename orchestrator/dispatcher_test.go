package orchestrator_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/steering"
)

// queue is a Queue in memory.
type queue struct {
	mu      sync.Mutex
	waiting []orchestrator.Cycle
	cancel  map[int64]bool
	lost    bool
	dead    []orchestrator.Cycle // what Reclaim ends, once
	due     []orchestrator.Cycle // what FireDue starts, once
	wake    chan struct{}
	gone    chan struct{} // closed: the session is lost
}

func (q *queue) Claim(context.Context) (c orchestrator.Cycle, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return c, false, nil
	}
	c, q.waiting = q.waiting[0], q.waiting[1:]
	return c, true, nil
}

func (q *queue) Reclaim(ctx context.Context, cleanUp func(context.Context, []orchestrator.Cycle) error) (ended []orchestrator.Cycle, err error) {
	q.mu.Lock()
	ended, q.dead = q.dead, nil
	q.mu.Unlock()
	if len(ended) == 0 {
		return nil, nil
	}
	return ended, cleanUp(ctx, ended)
}

func (q *queue) CancelRequested(_ context.Context, id int64) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost {
		return false, orchestrator.ErrLost
	}
	return q.cancel[id], nil
}

func (q *queue) FireDue(context.Context, time.Time) ([]orchestrator.Cycle, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fired := q.due
	q.due, q.waiting = nil, append(q.waiting, fired...)
	return fired, nil
}

func (q *queue) Wake() <-chan struct{} { return q.wake }
func (q *queue) Lost() <-chan struct{} { return q.gone }

func (q *queue) set(change func(*queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

// numbered is a request with a number.
func numbered(id int64) orchestrator.Cycle {
	c := request()
	c.ID = id
	return c
}

// dispatching runs a dispatcher over a bench whose runs take a second each.
func dispatching(t *testing.T, q *queue, change ...func(*orchestrator.Dispatcher)) (*bench, context.CancelFunc) {
	b := newBench(proposes{algorithm: balance.ExpectedCompletion})
	b.load.p95 = map[int]float64{1: 200, 2: 100, 3: 100}
	b.load.during = func(int, loadtest.Scenario) { time.Sleep(time.Second) } // of the bubble's time
	q.wake, q.cancel = make(chan struct{}, 1), map[int64]bool{}
	d := &orchestrator.Dispatcher{Queue: q, Tuner: b.tuner, Converger: b.tuner.Converger, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(d)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return b, func() {
		stop()
		require.NoError(t, <-done)
	}
}

// ends are the last statuses of the cycles that were saved, by number.
func (l *ledger) ends() map[int64]orchestrator.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[int64]orchestrator.Status{}
	for _, c := range l.saved {
		all[c.ID] = c.Status
	}
	return all
}

func TestCyclesRunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := dispatching(t, &queue{waiting: []orchestrator.Cycle{numbered(1), numbered(2)}})
		defer stop()
		time.Sleep(5 * time.Second)
		require.Contains(t, b.ledger.ends(), int64(1))
		require.NotContains(t, b.ledger.ends(), int64(2), "the second waits for the first")
		time.Sleep(5 * time.Minute)
		require.Equal(t, orchestrator.Kept, b.ledger.ends()[1])
		require.True(t, b.ledger.ends()[2].Ended())
	})
}

func TestACancellationReachesTheRunningCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{waiting: []orchestrator.Cycle{numbered(1)}}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(4 * time.Second)
		q.set(func(q *queue) { q.cancel[1] = true })
		q.wake <- struct{}{}
		time.Sleep(3 * time.Second)
		require.Equal(t, orchestrator.Cancelled, b.ledger.ends()[1])
		championIsBack(t, b)
	})
}

func TestACycleThatIsNotOursAnyMoreStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{waiting: []orchestrator.Cycle{numbered(1)}}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(4 * time.Second)
		q.set(func(q *queue) { q.lost = true })
		made := b.load.made.Load()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, b.load.made.Load(), made+3, "noticed at the next tick of 2 s; a run takes one")
		require.False(t, b.ledger.ends()[1].Ended(), "whoever took it over ends it")
	})
}

func TestALostSessionStopsTheCycleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{waiting: []orchestrator.Cycle{numbered(1)}, gone: make(chan struct{})}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(4 * time.Second)
		close(q.gone)
		made := b.load.made.Load()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, b.load.made.Load(), made+1)
		require.False(t, b.ledger.ends()[1].Ended())
	})
}

// A session that is lost may mean that the ledger is out of reach for long: the candidate does not wait for it.
func TestALostSessionPutsTheChampionBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{waiting: []orchestrator.Cycle{numbered(1)}, gone: make(chan struct{})}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(2500 * time.Millisecond) // settling
		require.Equal(t, 2, b.proxies.serves())
		b.ledger.mu.Lock()
		b.ledger.down = true
		b.ledger.mu.Unlock()
		close(q.gone)
		time.Sleep(time.Second)
		require.Equal(t, 1, b.proxies.serves())
	})
}

// It was taken over, and whoever did may be measuring by now.
func TestALostCycleLeavesTheModeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{waiting: []orchestrator.Cycle{numbered(1)}, gone: make(chan struct{})}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(2500 * time.Millisecond)
		close(q.gone)
		time.Sleep(3 * time.Second)
		measuring := steering.Mode{Mode: steering.Fixed, Algorithm: balance.Random}
		require.NoError(t, b.proxies.SetMode(t.Context(), measuring)) // the heir's
		time.Sleep(time.Minute)
		b.proxies.mu.Lock()
		defer b.proxies.mu.Unlock()
		require.Equal(t, measuring, b.proxies.mode)
	})
}

// A process that died while it measured leaves fixed algorithms and short windows behind.
func TestReclaimEndsTheMeasuringMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{dead: []orchestrator.Cycle{numbered(4)}}
		b, stop := dispatching(t, q)
		defer stop()
		time.Sleep(3 * time.Second)
		b.proxies.mu.Lock()
		defer b.proxies.mu.Unlock()
		require.Equal(t, steering.Mode{Mode: steering.Adaptive, TimeScale: 1}, b.proxies.mode)
	})
}

func TestAStopWaitsForTheRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := dispatching(t, &queue{waiting: []orchestrator.Cycle{numbered(1)}})
		time.Sleep(4500 * time.Millisecond) // within a pair
		stop()
		require.Equal(t, orchestrator.Interrupted, b.ledger.ends()[1])
		championIsBack(t, b)
	})
}

func TestADueScheduleStartsItsCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := dispatching(t, &queue{due: []orchestrator.Cycle{numbered(3)}})
		defer stop()
		time.Sleep(5 * time.Minute)
		require.Equal(t, orchestrator.Kept, b.ledger.ends()[3])
	})
}

// A reclaimed cycle's pointer is back on the champion; the dispatcher brings the target in line at once.
func TestReclaimedTrialsLeaveTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		b, stop := dispatching(t, q)
		defer stop()
		b.proxies.mu.Lock()
		b.proxies.now.Hash, b.proxies.now.Version = "of a candidate", 9
		b.proxies.mu.Unlock()
		q.set(func(q *queue) { q.dead = []orchestrator.Cycle{numbered(4)} })
		q.wake <- struct{}{}
		time.Sleep(time.Second)
		require.Equal(t, 1, b.proxies.serves())
	})
}
