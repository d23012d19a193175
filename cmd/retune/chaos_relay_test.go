package main

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How a relay passes bytes on.
type weather int

const (
	fair     weather = iota
	refusing         // connections are cut, and new ones at once
	hung             // nothing passes, and nobody is told
	slow             // each message to the server is late
)

// lateBy is how long a slow relay holds each message back: what a round trip takes longer.
const lateBy = 1200 * time.Millisecond

// relay stands between an orchestrator and Postgres' socket.
type relay struct {
	to    string
	ln    net.Listener
	late  atomic.Int64 // messages that were held back
	wait  sync.WaitGroup
	mu    sync.Mutex
	now   weather               // guarded by mu
	turn  chan struct{}         // guarded by mu; closed when the weather changes
	conns map[net.Conn]struct{} // guarded by mu
}

func newRelay(t *testing.T, to string) *relay {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{to: to, ln: ln, turn: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	r.wait.Go(r.accept)
	t.Cleanup(func() {
		ln.Close()
		r.become(refusing)
		r.wait.Wait()
	})
	return r
}

// dsn is how to connect through the relay.
func (r *relay) dsn() string {
	at := r.ln.Addr().(*net.TCPAddr)
	return fmt.Sprintf("host=127.0.0.1 port=%d user=retune dbname=postgres sslmode=disable", at.Port)
}

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", r.to)
		if err != nil || !r.hold(client, server) {
			client.Close()
			continue
		}
		r.wait.Go(func() { r.pump(server, client, true) })
		r.wait.Go(func() { r.pump(client, server, false) })
	}
}

// hold keeps account of a connection, unless connections are refused.
func (r *relay) hold(client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == refusing {
		server.Close()
		return false
	}
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	return true
}

// become changes the weather. What is held back passes when it turns fair, as in a network that comes back.
func (r *relay) become(w weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = w
	close(r.turn)
	r.turn = make(chan struct{})
	if w == refusing {
		for c := range r.conns {
			c.Close()
		}
		clear(r.conns)
	}
}

func (r *relay) pump(to, from net.Conn, request bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.pass(request)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass returns when a message may.
func (r *relay) pass(request bool) {
	for {
		r.mu.Lock()
		now, turn := r.now, r.turn
		r.mu.Unlock()
		switch {
		case now == hung:
			<-turn
		case now == slow && request:
			select {
			case <-turn:
			case <-time.After(lateBy):
			}
			r.late.Add(1)
			return
		default:
			return
		}
	}
}
