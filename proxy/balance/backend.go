package balance

import (
	"math"
	"net/url"
	"sync/atomic"
	"time"
)

// Backend is one server that requests are sent to, with what every algorithm picks by. Its counters are kept
// for every request whatever the algorithm, and survive reloads and switches. All of it is safe for
// concurrent use. Do not copy.
type Backend struct {
	id     string
	url    *url.URL
	weight atomic.Int64
	warmth atomic.Uint64 // float64 bits, in (0, 1]

	_        [64]byte // what each request writes stays off the line of what each pick reads
	inFlight atomic.Int64
	flowing  atomic.Int64 // of them, whose answer has begun: nobody waits for it
	quiet    atomic.Int64 // instant since when requests wait without an answer; 0: none did at the last answer
	latency  latency
	capacity capacity
	trouble  trouble
	_        [64]byte
}

// Load is how many requests a backend had in flight when one began, that one included.
type Load int64

// NewBackend makes a backend; weight is at least 1.
func NewBackend(id string, u *url.URL, weight int) *Backend {
	b := &Backend{id: id, url: u}
	b.latency.setDecay(DefaultDecay)
	b.SetWeight(weight)
	b.SetWarmth(1)
	return b
}

// ID is the backend's name, unique in a proxy.
func (b *Backend) ID() string { return b.id }

// URL is where its requests go.
func (b *Backend) URL() *url.URL { return b.url }

// Weight is its share in the weighted algorithms.
func (b *Backend) Weight() int { return int(b.weight.Load()) }

// SetWeight changes its share; the caller builds new pickers afterwards.
func (b *Backend) SetWeight(w int) { b.weight.Store(int64(max(w, 1))) }

// Warmth is the share of its usual traffic that a backend in slow start gets, in (0, 1].
func (b *Backend) Warmth() float64 { return math.Float64frombits(b.warmth.Load()) }

// SetWarmth sets the share; it takes effect at once, on pickers that exist as well. Values outside of
// [0.01, 1] are brought into it, NaN to 1. IP_HASH and CONSISTENT_HASH ignore it: affinity goes first.
func (b *Backend) SetWarmth(f float64) {
	if f != f {
		f = 1
	}
	b.warmth.Store(math.Float64bits(min(max(f, 0.01), 1)))
}

// InFlight is how many requests it is working on now.
func (b *Backend) InFlight() int64 { return b.inFlight.Load() }

// ResponseTime is the smoothed response time of the last seconds; 0 as long as no request was answered.
func (b *Backend) ResponseTime() time.Duration {
	return time.Duration(b.latency.recent.value())
}

// LongRunAverage is the average response time over the last ten minutes or so; 0 as long as no request was
// answered. What is slow by the backend's own measure is judged by it.
func (b *Backend) LongRunAverage() time.Duration {
	return time.Duration(b.latency.longRun.value())
}

// ServiceTime is the response time that EXPECTED_COMPLETION expects while the backend has a slot free; 0 as
// long as no request was answered.
func (b *Backend) ServiceTime() time.Duration {
	return time.Duration(b.capacity.service.value())
}

// Concurrency is how many requests EXPECTED_COMPLETION believes that the backend can work on at once, at least 1.
// Where it was never near full that is a guess, and may be far too high.
func (b *Backend) Concurrency() float64 { return b.capacity.concurrency() }

// Waiting is how many of them wait for their answer to begin.
func (b *Backend) Waiting() int64 { return b.inFlight.Load() - b.flowing.Load() }

// Flow notes that an answer has begun, of which more is to come: a stream or a tunnel may last for hours, and is no sign
// that the backend hangs. Call Flowed before its End. Answers that come in one piece need neither.
func (b *Backend) Flow(now int64) {
	b.flowing.Add(1)
	b.heard(now)
}

// Flowed takes a Flow back.
func (b *Backend) Flowed() { b.flowing.Add(-1) }

// heard notes a sign of life.
func (b *Backend) heard(now int64) {
	if b.Waiting() > 0 {
		b.quiet.Store(now)
	} else {
		b.quiet.Store(0)
	}
}

// Begin counts a request in, at the moment of the pick. Hand the result to End.
func (b *Backend) Begin() Load { return Load(b.inFlight.Add(1)) }

// End counts it out: once for each Begin, whatever happened. l is what Begin gave, now the monotonic clock
// in nanoseconds, elapsed the time since Begin.
//
// A request that did not succeed tells a response time only as a lower bound: it counts where it was slower
// than what is known, so that a hung backend looks slow and one that fails fast never looks fast.
func (b *Backend) End(l Load, now int64, elapsed time.Duration, o Outcome) {
	b.inFlight.Add(-1)
	b.heard(now)
	took := float64(max(elapsed, 1))
	if o == Success || b.latency.known() && took > float64(b.ResponseTime()) {
		b.latency.observe(now, took)
		b.capacity.observe(now, float64(l), took)
	}
	if o != Aborted {
		b.trouble.observe(now, o == Failure)
	}
}

// Forget makes the backend as new, but for its requests in flight: for a measurement, whose arms have to begin alike.
func (b *Backend) Forget() {
	for _, e := range []*estimate{&b.latency.recent, &b.latency.peak, &b.latency.longRun, &b.capacity.service, &b.trouble.level} {
		e.word.Store(0)
	}
	b.capacity.slots.word.Store(0)
	b.latency.born.Store(0)
}

// silence is for how long, in nanoseconds, requests have been waiting since the last one ended: a lower bound
// of the next response time, and the only sign that a backend that hangs gives before the timeout.
func (b *Backend) silence(now int64) float64 {
	since := b.quiet.Load()
	if since == 0 {
		return 0
	}
	return float64(now - since)
}
