package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"retune/proxy/balance"
)

// Backend is a model of one server.
type Backend struct {
	ID          string
	Weight      int
	Mean        time.Duration // of its service time
	Sigma       float64       // of the lognormal service time; 0: always Mean
	Concurrency int           // requests worked on at once, the rest queue in order; 0: no limit
	Queue       int           // requests that may wait, more are refused at once; 0: no limit
}

// Server is a backend in a running experiment. Events may set its exported fields.
type Server struct {
	Balance  *balance.Backend
	Slowdown float64       // service times are multiplied by it; 1 at first
	Failing  float64       // share of requests that fail, after FailsIn
	FailsIn  time.Duration // 1 ms at first
	model    Backend
	free     heap // when each busy slot is free again
}

func newServer(b Backend) *Server {
	return &Server{
		Balance:  balance.NewBackend(b.ID, nil, b.Weight),
		Slowdown: 1, FailsIn: time.Millisecond, model: b,
	}
}

// serve takes in a request and tells how long it will take to answer, queueing included: in a first-come,
// first-served queue nothing that comes later changes that.
func (s *Server) serve(now int64, dice *rand.Rand) (took int64, o balance.Outcome) {
	if s.refuses() || dice.Float64() < s.Failing {
		return int64(s.FailsIn), balance.Failure
	}
	begins := s.slot(now)
	ends := begins + int64(s.service(dice))
	if s.model.Concurrency > 0 {
		s.free.push(entry{at: ends})
	}
	return ends - now, balance.Success
}

// refuses reports whether the queue is full. The request that asks is in flight already.
func (s *Server) refuses() bool {
	return s.model.Concurrency > 0 && s.model.Queue > 0 && s.Balance.InFlight() > int64(s.model.Concurrency+s.model.Queue)
}

// slot is when the next request can begin, and takes that slot.
func (s *Server) slot(now int64) int64 {
	if s.model.Concurrency == 0 || len(s.free) < s.model.Concurrency {
		return now
	}
	return max(now, s.free.pop().at)
}

// service draws a service time whose mean, not median, is the model's.
func (s *Server) service(dice *rand.Rand) float64 {
	sigma := s.model.Sigma
	return s.mean() * math.Exp(dice.NormFloat64()*sigma-sigma*sigma/2)
}

func (s *Server) mean() float64 { return float64(s.model.Mean) * s.Slowdown }

// wait is how long a request that comes now will queue; without end at a backend that fails. Only the oracle knows.
func (s *Server) wait(now int64) float64 {
	switch {
	case s.Failing > 0:
		return math.Inf(1)
	case s.model.Concurrency == 0 || len(s.free) < s.model.Concurrency:
		return 0
	}
	return float64(max(0, s.free[0].at-now))
}
