package proxy

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
)

// upstream is a connection to a backend.
type upstream struct {
	stream
	engine *goroutines
	home   *server
	since  int64       // when it was kept, balance.Now
	lost   atomic.Bool // its backend gives no sign of life
}

// connect finds a connection to the call's backend: one that was kept, if that may be, else a new one.
func (t *task) connect(kept bool) (reused bool, err error) {
	c, s := t.client, t.seat.server
	if kept {
		for t.up = s.spares.take(c.now); t.up != nil; t.up = s.spares.take(c.now) {
			if t.up.rouse() && !t.up.lost.Load() {
				return true, nil
			}
			t.up.end()
		}
	}
	t.up, err = c.dial(s, t.limit()-t.still())
	c.now = balance.Now()
	if err != nil && t.still() >= t.limit() {
		err = errTimeout
	}
	return false, err
}

// part lets go of the connection to the backend, and ends the uplink. keep: the connection may serve another call,
// if all of this one's request has gone.
func (t *task) part(keep bool) {
	u := t.up
	if u == nil {
		return
	}
	t.up = nil
	t.mu.Lock()
	keep = keep && t.body.Done() && !t.unsent.Load()
	t.mu.Unlock()
	if !keep {
		u.end()
	}
	t.halt()
	if keep && !u.home.spares.keep(u, t.client.now) {
		u.end()
	}
}

// dial opens a connection.
func (e *goroutines) dial(s *server, limit time.Duration) (*upstream, error) {
	d := newDialer()
	d.Timeout = max(min(d.Timeout, limit), time.Millisecond)
	conn, err := d.DialContext(e.ctx, "tcp", withPort(s.URL()))
	if err != nil {
		return nil, fmt.Errorf("connecting to backend %s: %w", s.ID(), err)
	}
	u := &upstream{stream: newStream(conn.(*net.TCPConn)), engine: e, home: s}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	e.upstreams[u] = struct{}{}
	return u, nil
}

// lose has the calls that wait for a backend look for another one, now that it is lost.
func (e *goroutines) lose(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for u := range e.upstreams {
		if u.home == s {
			u.lost.Store(true)
			u.wake()
		}
	}
}

// end closes the connection.
func (u *upstream) end() {
	_ = u.Close()
	u.release()
	u.engine.mu.Lock()
	defer u.engine.mu.Unlock()
	delete(u.engine.upstreams, u)
}

// spareCheck is how often the idle connections to a backend are looked at.
const spareCheck = 100 * time.Millisecond

// spares are the idle connections to one backend, the last used one on top: those below get old and are closed. The
// zero value is ready for use.
type spares struct {
	mu    sync.Mutex
	stack []*upstream // guarded by mu
	timer *time.Timer // guarded by mu; nil before the first connection
	timed bool        // guarded by mu: the timer runs
}

// take is the connection that was used last; nil when there is none.
func (s *spares) take(now int64) *upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.stack) - 1
	if n < 0 || time.Duration(now-s.stack[n].since) >= upstreamIdle {
		return nil
	}
	u := s.stack[n]
	s.stack[n] = nil
	s.stack = s.stack[:n]
	return u
}

// keep puts a connection on top; false when there are enough.
func (s *spares) keep(u *upstream, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stack) == mostIdle {
		return false
	}
	u.since = now
	u.rest()
	s.stack = append(s.stack, u)
	if s.timed {
		return true
	}
	s.timed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(spareCheck, s.check)
	} else {
		s.timer.Reset(spareCheck)
	}
	return true
}

// check closes what has been idle for too long, or was closed by the backend.
func (s *spares) check() {
	for _, u := range s.useless(balance.Now()) {
		u.end()
	}
}

func (s *spares) useless(now int64) (list []*upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stack = slices.DeleteFunc(s.stack, func(u *upstream) bool {
		idle := time.Duration(now - u.since)
		if idle < upstreamIdle && !u.lost.Load() && (idle < spareCheck || !u.usedUp()) {
			return false
		}
		list = append(list, u)
		return true
	})
	if s.timed = len(s.stack) > 0; s.timed {
		s.timer.Reset(spareCheck)
	}
	return list
}

// shut ends the timer. The engine closes the connections.
func (s *spares) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.stack, s.timed = nil, false
}
