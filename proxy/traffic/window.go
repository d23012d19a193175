package traffic

import (
	"sync"
	"sync/atomic"
	"time"
)

// Window sums the requests of a sliding span over all backends. It is a ring of 20 buckets a window, over two windows,
// with exact counts; a snapshot sums the 20 buckets that are complete. Times are the monotonic clock in
// nanoseconds. Requests count when they end.
//
// Record may run on any goroutine at any time; the other methods are safe for concurrent use too, but Snapshot
// is meant for one loop that calls it once per window.
type Window struct {
	grid atomic.Pointer[grid]

	mu      sync.Mutex // guards what follows, and the tallies' long-run averages
	tallies map[string]*Tally
	seq     uint64
	trend   trend
}

// grid numbers the buckets: the bucket at time t is first + (t - start) / width. A reset makes a new grid whose
// numbers follow those of the old one at a distance, so that no bucket has to be emptied.
type grid struct {
	start  int64 // monotonic ns
	length time.Duration
	width  int64 // of a bucket, ns
	first  int64
}

func (g *grid) tick(now int64) int64 { return g.first + max(now-g.start, 0)/g.width }

// next is a grid that starts now.
func (g *grid) next(now int64, length time.Duration) *grid {
	return &grid{start: now, length: length, width: max(int64(length)/perWindow, 1), first: g.tick(now) + ringSize}
}

// Live is what a caller knows of a backend and a Window does not.
type Live struct {
	ID       string
	Healthy  bool
	InFlight int64
}

// NewWindow makes an empty window of the given length that starts now; slope is how many windows
// Snapshot.LatencySlope spans.
func NewWindow(now int64, length time.Duration, slope int) *Window {
	w := &Window{tallies: map[string]*Tally{}, trend: trend{span: slope}}
	w.grid.Store((&grid{start: now, width: 1}).next(now, length))
	return w
}

// Backend is the tally of the backend with this id, made at the first call; the caller keeps it beside its
// backend. The id "" is for requests that reached no backend: they count in the totals alone.
func (w *Window) Backend(id string) *Tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tallies[id]
	if t == nil {
		t = newTally(&w.grid)
		w.tallies[id] = t
	}
	t.asked = true // whoever names the live backends of the next snapshot may not know of it yet
	return t
}

// Reset forgets everything, the backends' long-run averages too, and starts the first window now.
func (w *Window) Reset(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restart(now, w.grid.Load().length)
	for _, t := range w.tallies {
		t.norm, t.folded = norm{}, 0
	}
}

// Resize changes the length and the slope's span. An unchanged length keeps every count; another one starts the
// windows anew, but the long-run averages stay.
func (w *Window) Resize(now int64, length time.Duration, slope int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trend.span = slope
	if length != w.grid.Load().length {
		w.restart(now, length)
	}
}

// restart begins the first window now. w.mu is held.
func (w *Window) restart(now int64, length time.Duration) {
	w.grid.Store(w.grid.Load().next(now, length))
	w.trend = trend{span: w.trend.span}
}

// Snapshot sums the window that ends now; at is the same instant as wall-clock time. live names the backends to
// report, in that order. State, Algorithm and RulesVersion are left to the caller: steering.Governor.Evaluate
// fills them in.
func (w *Window) Snapshot(now int64, at time.Time, live []Live) Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.grid.Load()
	span := newSpan(g, now)
	w.seq++
	s := Snapshot{Seq: w.seq, At: at, Window: g.length, Backends: make([]BackendSnapshot, 0, len(live))}
	total, h := w.sum(span, &s, live)
	s.Requests, s.Errors = total.now.requests(), total.now.ended[Failure]
	s.ErrorRate = rate(s.Errors, s.Requests)
	s.AvgLatencyMS = total.now.avgMS()
	s.P50MS, s.P95MS, s.P99MS = h.QuantileMS(0.50), h.QuantileMS(0.95), h.QuantileMS(0.99)
	if span.elapsed > 0 {
		s.RPS = float64(s.Requests) / span.elapsed.Seconds()
	}
	if span.hasPrevious {
		s.compare(float64(total.previous.requests()) / g.length.Seconds())
	}
	s.LatencySlope, s.Rising = w.trend.add(span.last, &s)
	return s
}

// compare sets the rps change rate against the window before.
func (s *Snapshot) compare(previous float64) {
	s.PreviousRPS = previous
	switch {
	case previous > 0:
		r := (s.RPS - previous) / previous
		s.RPSChangeRate = &r
	case s.RPS > 0:
		s.FromZero = true
	default:
		s.RPSChangeRate = new(float64) // nothing, as before
	}
}

// pair is a sum over this window and over the one before.
type pair struct{ now, previous sums }

// sum adds up all tallies, reports the live ones, and forgets those that are idle and not live. w.mu is held.
func (w *Window) sum(sp span, s *Snapshot, live []Live) (pair, *Histogram) {
	var total pair
	all := new(Histogram)
	for _, t := range w.tallies {
		t.reported = false
	}
	for _, l := range live {
		b := BackendSnapshot{ID: l.ID, Healthy: l.Healthy, InFlight: l.InFlight}
		if t := w.tallies[l.ID]; t != nil && l.ID != "" {
			p, h := t.take(sp)
			t.reported = true
			b.fill(&p.now, h, t.norm.known())
			total.add(p)
			all.merge(h)
		}
		s.Backends = append(s.Backends, b)
		s.InFlight += l.InFlight
	}
	for id, t := range w.tallies {
		asked := t.asked
		t.asked = false
		if t.reported {
			continue
		}
		p, h := t.take(sp)
		total.add(p)
		all.merge(h)
		if id != "" && !asked && p.now.attempts()+p.previous.attempts() == 0 && sp.hasPrevious {
			delete(w.tallies, id)
		}
	}
	return total, all
}

func (p *pair) add(o pair) {
	p.now.add(o.now)
	p.previous.add(o.previous)
}

// take sums one tally over a span, and folds what has left the window into its long-run average.
func (t *Tally) take(sp span) (pair, *Histogram) {
	p := pair{t.sum(sp.first, sp.last), t.sum(sp.first-perWindow, sp.first-1)}
	if from := max(t.folded+1, sp.first-perWindow, sp.origin); from < sp.first {
		old := t.sum(from, sp.first-1)
		t.norm.fold(time.Duration(sp.first-from)*sp.width, old.avgMS(), old.ended[Success])
		t.folded = sp.first - 1
	}
	return p, t.histogram(sp.first, sp.last)
}

// fill sets a backend's figures.
func (b *BackendSnapshot) fill(s *sums, h *Histogram, norm float64) {
	b.Requests = s.attempts()
	b.Errors = s.ended[Failure] + s.ended[Retried]
	b.ErrorRate = rate(b.Errors, b.Requests)
	b.AvgLatencyMS = s.avgMS()
	b.P95MS = h.QuantileMS(0.95)
	b.LongAvgLatencyMS = norm
}

// span is the buckets of one snapshot.
type span struct {
	first, last int64 // ticks of the window, both included
	origin      int64 // the grid's first tick
	width       time.Duration
	elapsed     time.Duration // the window's length, less at the start
	hasPrevious bool          // the window before is complete
}

// newSpan covers the complete buckets before now; right after a start, the one being filled instead.
func newSpan(g *grid, now int64) span {
	tick := g.tick(now)
	sp := span{first: max(tick-perWindow, g.first), last: tick - 1, origin: g.first, width: time.Duration(g.width)}
	sp.elapsed = time.Duration(sp.last-sp.first+1) * sp.width
	if tick == g.first {
		sp.last, sp.elapsed = tick, time.Duration(max(now-g.start, 0))
	}
	sp.hasPrevious = tick-2*perWindow >= g.first
	return sp
}
