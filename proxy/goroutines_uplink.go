package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
)

// watchAfter is how long a request may go without an answer before its client is watched, at least: before, the answer
// would find out as soon.
const watchAfter = 25 * time.Millisecond

// uplink is the client's side of a call that is not over at once: a goroutine that sends what is still to come of the
// request, and then watches for the client's leaving. As long as it runs, it is the one that reads from the client.
type uplink struct {
	busy bool          // the goroutine runs; its caller's alone
	over chan struct{} // says that it has ended; made once
	sent int           // bytes of the request that a backend's connection has taken; the goroutine's, while it runs

	stopping atomic.Bool
	moved    atomic.Int64 // when it has sent something last, balance.Now
	sending  atomic.Bool  // it waits for the backend
	unsent   atomic.Bool  // not everything that was read has been sent

	mu  sync.Mutex // guards err, and the call's body, whole and finite
	err error      // why the call can't go on: errGone, or refusal
}

// start starts the goroutine, which first sends rest.
func (t *task) start(rest []byte) {
	t.busy, t.err = true, nil
	t.unsent.Store(len(rest) > 0)
	go t.carry(t.up, rest)
}

// halt ends the goroutine and waits for it. Whoever calls it has closed the backend's connection, if that may block.
func (t *task) halt() {
	if !t.busy {
		return
	}
	t.stopping.Store(true)
	t.client.wake()
	<-t.over
	t.stopping.Store(false)
	t.busy, t.client.due = false, 0
}

// trouble is why the call can't go on; nil while it can.
func (t *task) trouble() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// movable reports whether the call can be sent to another backend while this one has not answered.
func (t *task) movable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.answered && t.mayRetry(false)
}

// fails ends the call.
func (t *task) fails(u *upstream, err error) {
	t.mu.Lock()
	t.err = err
	t.mu.Unlock()
	u.wake()
}

// left ends the call after reading from its client has failed, unless that may yet take its answer.
func (t *task) left(u *upstream, err error) {
	t.mu.Lock()
	left := !errors.Is(err, io.EOF) || t.abandoned()
	t.mu.Unlock()
	if left {
		t.fails(u, errGone)
	}
}

// clientIsDue reports whether the call waits for its client's body.
func (t *task) clientIsDue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.body.Done() && !t.sending.Load() && !t.expecting()
}

// carry is the goroutine.
func (t *task) carry(u *upstream, rest []byte) {
	defer func() { t.over <- struct{}{} }()
	if len(rest) > 0 && !t.send(u, rest) {
		return
	}
	for c := t.client; !c.full(); {
		switch err := c.fill(); {
		case c.late(err):
			_ = c.SetReadDeadline(time.Time{}) // the call has a limit of its own
			if t.stopping.Load() {
				return
			}
		case err != nil:
			t.left(u, err)
			return
		case !t.forward(u):
			return
		}
	}
}

// forward sends on what is unread of the request's body; false when that is no use.
func (t *task) forward(u *upstream) bool {
	in := t.client.unread()
	t.mu.Lock()
	n, fault := 0, error(nil)
	if !t.body.Done() {
		t.whole = false
		t.unsent.Store(true)
		k, f := t.body.Feed(in)
		if n = k; f != nil {
			fault = refusal{f}
		}
	}
	t.mu.Unlock()
	if fault != nil {
		t.fails(u, fault)
		return false
	}
	if n == 0 {
		return true
	}
	ok := t.send(u, in[:n])
	t.client.use(n)
	return ok
}

// send sends part of the request. When that fails, the backend has closed: what it said before, its answer's reader
// finds out.
func (t *task) send(u *upstream, b []byte) bool {
	t.sending.Store(true)
	n, err := u.Write(b)
	t.sending.Store(false)
	t.sent += n
	t.moved.Store(balance.Now())
	if err == nil {
		t.unsent.Store(false)
	}
	return err == nil
}
