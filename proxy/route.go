package proxy

import (
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// route is where requests go: a picker over the backends that are available now. It never changes; a new one
// takes its place when the algorithm, the set, the weights or their health do.
type route struct {
	picker    balance.Picker
	algorithm balance.Algorithm
	available []*balance.Backend
	seats     map[*balance.Backend]*seat
	plain     bool                // no backend of them speaks TLS
	duration  prometheus.Observer // of picks
}

// sampled reports whether to time this pick: one in 64, since two readings of the clock cost more than a pick.
func (r *route) sampled() bool { return rand.Uint32()%64 == 0 }

// seat is a server on one route, with its counters under that route's algorithm already looked up.
type seat struct {
	*server
	attempts *attempts
}

// pick chooses a seat for a client; nil when there is none.
func (r *route) pick(key uint64) *seat {
	if b := r.picker.Pick(key); b != nil {
		return r.seats[b]
	}
	return nil
}

// another is the seat for a retry after tried has failed; nil when there is none. plain: of those that speak no TLS.
func (r *route) another(tried *seat, plain bool) *seat {
	not := []*balance.Backend{tried.Backend}
	if plain && !r.plain {
		for _, b := range r.available {
			if b.URL().Scheme != "http" {
				not = append(not, b)
			}
		}
	}
	if b := balance.Another(r.available, not); b != nil {
		return r.seats[b]
	}
	return nil
}

// exchange is one attempt at one backend, from its pick to its end.
type exchange struct {
	seat  *seat
	load  balance.Load
	began int64 // balance.Now
	head  int64 // when the answer's head came; 0 before
	flows bool  // the answer has begun, and more of it is to come
}

func (s *seat) begin(now int64) exchange {
	s.attempts.picked()
	return exchange{seat: s, load: s.Begin(), began: now}
}

// flow notes that the answer has begun and is not whole yet.
func (x *exchange) flow(now int64) {
	if !x.flows {
		x.flows = true
		x.seat.Flow(now)
		x.seat.begun.Add(1)
	}
}

// end counts the attempt, once. Its latency is the time to the answer's head: what comes after depends on the
// client's pace as much as on the backend's.
func (x *exchange) end(now int64, o traffic.Outcome) {
	elapsed := now - x.began
	if x.head != 0 {
		elapsed = x.head - x.began
	}
	if x.flows {
		x.seat.Flowed()
	}
	x.seat.count(x.load, x.began, now, elapsed, o)
}
