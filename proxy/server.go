package proxy

import (
	"net"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// server is a backend with what the proxy knows of it. It survives reloads and switches.
type server struct {
	*balance.Backend
	pool    *pool
	tally   *traffic.Tally
	address netip.AddrPort // of its URL; invalid when that has a name
	spares  spares         // idle connections of the goroutine engine

	failing  atomic.Int64         // failures since the last success: the passive health check
	returned atomic.Int64         // instant of its last return to service (balance.Now); failures of before don't count
	life     atomic.Pointer[life] // see onceLost
	requests atomic.Uint64
	aborted  atomic.Uint64 // of them, by their clients
	errors   atomic.Uint64
	begun    atomic.Uint64 // answers that came in more than one piece, counted at the first

	health   health // guarded by pool.mu
	draining bool   // guarded by pool.mu
	removed  bool   // guarded by pool.mu
}

// count books an attempt that has ended. began and now are instants (balance.Now), elapsed is in nanoseconds.
func (s *seat) count(l balance.Load, began, now, elapsed int64, o traffic.Outcome) {
	e := time.Duration(elapsed)
	s.tally.Record(now, e, o)
	s.attempts.end(e, o)
	switch o {
	case traffic.Success:
		s.End(l, now, e, balance.Success)
		if s.failing.Load() != 0 {
			s.failing.Store(0)
		}
	case traffic.Failure, traffic.Retried:
		s.End(l, now, e, balance.Failure)
		s.errors.Add(1)
		s.pool.failed(s.server, began)
	default:
		s.End(l, now, e, balance.Aborted)
		s.aborted.Add(1)
	}
	s.requests.Add(1)
}

// signs is how often the backend has given a sign of life: it ended a request, well or badly, or began an answer.
func (s *server) signs() uint64 { return s.requests.Load() - s.aborted.Load() + s.begun.Load() }

// addressOfURL is where a URL points to without asking anybody: invalid when its host is a name.
func addressOfURL(u *url.URL) netip.AddrPort {
	a, err := netip.ParseAddrPort(withPort(u))
	if err != nil || a.Addr().Zone() != "" {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// withPort is a URL's host with its port.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
