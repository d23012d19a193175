package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"retune/proxy/balance"
)

// goroutines is the portable engine: a goroutine for each client's connection, in blocking code. Most calls are done
// by that goroutine alone:
//
//	client.serve   waits for a head ──▶ task.run  picks, connects, sends, passes the answer on ──▶ and again
//
// A call that takes long, or whose body has not come with its head, gets a second goroutine, its uplink: it sends the
// rest of the body, and then watches for the client's leaving.
//
// Nobody looks at the time for all: each wait is bounded by its connection's own deadline. To set one costs as much as
// a small write, so a deadline is left as it is while it is early enough, and whoever it wakes too early waits on.
// For the same reason any other goroutine may wake a reader by a deadline in the past.
type goroutines struct {
	*lane
	ctx    context.Context // of dialing; done when the engine closes
	cancel context.CancelFunc
	tasks  sync.Pool
	conns  sync.WaitGroup // the clients' goroutines

	mu        sync.Mutex
	listener  net.Listener           // guarded by mu
	ending    bool                   // guarded by mu: nothing new begins
	clients   map[*client]struct{}   // guarded by mu
	upstreams map[*upstream]struct{} // guarded by mu: in use and idle
}

// newGoroutines makes the engine of a goroutine per connection.
func newGoroutines(l *lane) engine {
	e := &goroutines{lane: l, clients: map[*client]struct{}{}, upstreams: map[*upstream]struct{}{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	l.choose.pool.onLoss(e.lose)
	e.tasks.New = func() any { return &task{uplink: uplink{over: make(chan struct{}, 1)}} }
	return e
}

func (e *goroutines) serve(ln *net.TCPListener) error {
	e.mu.Lock()
	if e.ending {
		e.mu.Unlock()
		return ln.Close()
	}
	e.listener = ln
	e.mu.Unlock()
	for {
		conn, err := ln.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // no descriptor is free, or the client has left the queue
			e.log.Warn("a connection can't be accepted", "error", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-e.ctx.Done():
			}
		default:
			e.accepted(conn)
		}
	}
}

func (e *goroutines) accepted(conn *net.TCPConn) {
	c := &client{goroutines: e, stream: newStream(conn), peer: e.peerOf(conn)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		_ = conn.Close()
		return
	}
	e.clients[c] = struct{}{}
	e.conns.Go(c.serve)
}

func (e *goroutines) peerOf(conn *net.TCPConn) peer {
	addr := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	return peer{addr: addr, key: balance.Key(addr), trusted: contains(e.trusted, addr)}
}

func (e *goroutines) left(c *client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.clients, c)
}

// drain relies on lane.draining having been set before.
func (e *goroutines) drain(ctx context.Context) error {
	e.mu.Lock()
	e.ending = true
	if e.listener != nil {
		_ = e.listener.Close()
	}
	for c := range e.clients {
		c.wake()
	}
	e.mu.Unlock()
	for e.serving() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (e *goroutines) serving() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.clients) > 0
}

func (e *goroutines) close() {
	e.cancel()
	e.mu.Lock()
	e.ending = true
	if e.listener != nil {
		_ = e.listener.Close()
	}
	for c := range e.clients {
		_ = c.Close()
	}
	for u := range e.upstreams {
		_ = u.Close()
	}
	e.mu.Unlock()
	e.conns.Wait()
	e.mu.Lock()
	kept := e.upstreams
	e.upstreams = nil
	e.mu.Unlock()
	for u := range kept { // given back meanwhile
		u.home.spares.shut()
		_ = u.Close()
	}
}
