package proxy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"retune/proxy/balance"
	"retune/proxy/wire"
)

// client is one client's connection. Its goroutine answers one request after the other.
type client struct {
	stream
	*goroutines
	peer   peer
	now    int64 // balance.Now, when something came last
	served bool  // a request has been read
	writes int64 // until when writes are known to have a deadline, balance.Now
}

// ending is what becomes of a client's connection after a request.
type ending uint8

const (
	endNot    ending = iota // the next request may come
	endNow                  // it closes
	endLinger               // it closes, but the client may still be sending
	endHanded               // it is the full lane's
)

// serve answers the requests of the connection until it ends or is handed over.
func (c *client) serve() {
	defer c.left(c)
	e := endNot
	for e == endNot {
		var head []byte
		if head, e = c.head(); e == endNot {
			e = c.answer(head)
		}
	}
	switch e {
	case endHanded:
		return
	case endLinger:
		c.linger()
	}
	c.release()
	_ = c.Close()
}

// head waits for the next request's head, which stays unread.
func (c *client) head() ([]byte, ending) {
	c.now = balance.Now()
	since, limit, blank, begun := c.now, c.timeouts.idle, false, false
	if !c.served {
		limit = c.timeouts.head
	}
	for {
		if in := c.unread(); len(in) > 0 {
			if !blank && bytes.HasPrefix(in, headEnd[:2]) { // one empty line before a request is ignored, RFC 9112 §2.2
				blank = true
				c.use(2)
				continue
			}
			if i := bytes.Index(in[c.scanned:], headEnd); i >= 0 {
				return in[:c.scanned+i+len(headEnd)], endNot
			}
			fault := wire.Incomplete(in, c.scanned)
			if fault == nil && c.full() {
				fault = wire.HeadSize
			}
			if fault != nil {
				return nil, c.refuse(fault)
			}
			if c.scanned = max(0, len(in)-len(headEnd)+1); !begun {
				since, limit, begun = c.now, c.timeouts.head, true
			}
		}
		switch err := c.await(since, limit); {
		case errors.Is(err, errTimeout) && len(c.unread()) > 0:
			return nil, c.refuse(wire.HeadTime)
		case err != nil:
			return nil, endNow
		}
	}
}

// await waits for more of a head, until limit after since.
func (c *client) await(since int64, limit time.Duration) error {
	for {
		left := limit - time.Duration(c.now-since)
		if left <= 0 {
			return errTimeout
		}
		c.bound(c.now, min(left, limit)*3/4, left)
		if c.in == nil && c.draining.Load() {
			if c.glance(); c.in == nil {
				return io.EOF
			}
			return nil
		}
		err := c.wait()
		c.now = balance.Now()
		if !c.late(err) {
			return err
		}
	}
}

// answer answers the request whose head is unread.
func (c *client) answer(head []byte) ending {
	if !c.served && wire.IsHTTP2(head) {
		return c.handOver()
	}
	c.served = true
	t := c.tasks.Get().(*task)
	t.client = c
	defer t.free()
	other, fault := t.take(head, &c.peer, c.lane)
	route := c.choose.pool.route.Load()
	switch {
	case fault != nil:
		return c.refuse(fault)
	case other, !route.plain:
		return c.handOver()
	}
	c.use(len(head))
	if in := c.unread(); len(in) > 0 && !t.body.Done() {
		n, fault := t.body.Feed(in)
		if fault != nil {
			return c.refuse(fault)
		}
		t.out = append(t.out, in[:n]...)
		c.use(n)
	}
	return t.run(route)
}

// refuse answers what can't be passed on.
func (c *client) refuse(f *wire.Fault) ending {
	c.log.Debug("a request was refused", "status", f.Status, "cause", f.Cause)
	if c.say(c.appendOwn(nil, f.Status, "malformed_request", true, false)) != nil {
		return endNow
	}
	return endLinger
}

// handOver gives the connection to the full lane, with what is unread.
func (c *client) handOver() ending {
	_ = c.SetDeadline(time.Time{}) // a closed connection says so to the full lane
	read := bytes.Clone(c.unread())
	c.release()
	c.handover.give(c.TCPConn, read)
	return endHanded
}

// say writes to the client, which may take its time as long as it takes something.
func (c *client) say(b []byte) error {
	for {
		if c.now >= c.writes {
			c.writes = c.now + int64(wire.ClientStall/4)
			_ = c.SetWriteDeadline(time.Now().Add(wire.ClientStall)) // a closed connection says so in the write
		}
		n, err := c.Write(b)
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		b = b[n:]
		c.now, c.writes = balance.Now(), 0
	}
}

// linger ends the answers' direction, and discards what still comes, for a moment, and as long as the client goes on
// taking its last answer out of the system's buffer.
func (c *client) linger() {
	if c.CloseWrite() != nil {
		return
	}
	for before, now := -1, 0; c.SetReadDeadline(time.Now().Add(wire.LingerTime)) == nil; before = now {
		if _, err := io.Copy(io.Discard, c.TCPConn); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if c.raw.Control(func(fd uintptr) { now = held(fd) }) != nil || now == 0 || now == before {
			return
		}
	}
}
