package balance

import (
	"net/url"
	"sync/atomic"
	"time"
)

// Backend is one server that requests are sent to, with what every algorithm picks by. Its counters are kept
// for every request whatever the algorithm, and survive reloads and switches. Do not copy.
type Backend struct {
	id       string
	url      *url.URL
	weight   atomic.Int64
	inFlight atomic.Int64
}

// NewBackend makes a backend; weight is at least 1.
func NewBackend(id string, u *url.URL, weight int) *Backend {
	b := &Backend{id: id, url: u}
	b.SetWeight(weight)
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

// InFlight is how many requests it is working on now.
func (b *Backend) InFlight() int64 { return b.inFlight.Load() }

// Begin counts a request in, at the moment of the pick.
func (b *Backend) Begin() { b.inFlight.Add(1) }

// End counts it out. now is the monotonic clock in nanoseconds, elapsed the time since Begin.
func (b *Backend) End(now int64, elapsed time.Duration, o Outcome) { b.inFlight.Add(-1) }
