package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bufferSize = 4 << 10 // of a connection; a larger head makes it grow for a while
	// LingerTime is how long a connection whose last answer was given is read from before it closes: with unread bytes
	// in the socket the system would reset it, and take the answer with it.
	LingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
	// ClientStall is for how long a client may take nothing of its answer. Where each write would need a deadline of its
	// own, which costs more than it is worth, it is three quarters of that at the earliest.
	ClientStall = 80 * time.Second
)

// place is where in its stream a connection stands.
type place uint8

const (
	atHead place = iota
	atBody
	atChunks
	atHold   // after a head that asks for another protocol
	atOpaque // another protocol: nothing is looked at
	atEnd    // refused: nothing more is read
)

// Conn is one client connection behind the screen. Reads come from one goroutine at a time, as net/http does
// it; the other methods may be called from any.
type Conn struct {
	net.Conn
	limits *Limits
	fault  atomic.Pointer[Fault]
	// asked is set when a head asked for another protocol, switched when the server agreed.
	asked, switched atomic.Bool

	// All below, up to the mutex, belongs to the reading goroutine.
	at        place
	first     bool // nothing has been handed on yet
	buf       []byte
	r, ok, w  int // buf[r:ok] has passed the screen, buf[ok:w] has not been judged
	lineStart int // in a head: where in buf its current line begins
	head      Request
	left      int64 // body bytes still to come
	chunks    chunks

	writes atomic.Int64 // until when writes are known to have their deadline, Unix nanoseconds

	mu             sync.Mutex
	serverDeadline time.Time // guarded by mu
	headDeadline   time.Time // guarded by mu; of a head that is coming, or of a body that has been answered; else zero
	inBody         bool      // guarded by mu
}

func newConn(c net.Conn, l *Limits) *Conn {
	s := &Conn{Conn: c, limits: l, first: true, buf: make([]byte, bufferSize)}
	s.startHeadTimer() // the first head has its time from here
	return s
}

// Read hands on what passed the screen. A fault in a body is its error; a faulty head reads as the stand-in.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		switch {
		case c.r < c.ok:
			n := copy(p, c.buf[c.r:c.ok])
			c.r += n
			return n, nil
		case c.at == atEnd:
			return 0, io.EOF
		case c.ok == c.w && (c.at == atOpaque || c.at == atBody):
			return c.readThrough(p)
		}
		moved, fault := c.screen()
		if fault != nil {
			return 0, fault
		}
		if moved {
			continue
		}
		if c.at == atHold && c.w > c.ok {
			return 0, nil // kept back; net/http's watch for the client's leaving ends with it
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// readThrough reads what needs no look straight into p.
func (c *Conn) readThrough(p []byte) (int, error) {
	if c.at == atBody {
		p = p[:min(int64(len(p)), c.left)]
	}
	n, err := c.Conn.Read(p)
	if c.at == atBody {
		c.bodyPassed(int64(n))
	}
	return n, err
}

// screen judges the bytes between ok and w, and reports whether any may be handed on.
func (c *Conn) screen() (moved bool, fault *Fault) {
	from := c.ok
	switch c.at {
	case atHead:
		c.screenHead()
	case atBody:
		n := min(int64(c.w-c.ok), c.left)
		c.ok += int(n)
		c.bodyPassed(n)
	case atChunks:
		fault = c.screenChunks()
	case atHold:
		if c.switched.Load() {
			c.at = atOpaque
		}
	}
	if c.at == atOpaque {
		c.ok = c.w
	}
	return c.ok > from || c.at == atEnd, fault
}

// screenHead walks the complete lines of one head. A faulty head becomes the stand-in.
func (c *Conn) screenHead() {
	for from := c.ok; c.at == atHead && c.ok == from; {
		i := bytes.IndexByte(c.buf[c.lineStart:c.w], '\n')
		if i < 0 {
			return
		}
		if fault := c.screenLine(c.buf[c.lineStart : c.lineStart+i]); fault != nil {
			c.refuse(fault)
		}
	}
}

// screenLine takes a line of a head without its line feed.
func (c *Conn) screenLine(l []byte) *Fault {
	next := c.lineStart + len(l) + 1
	if len(l) == 0 || l[len(l)-1] != '\r' {
		return BareLF
	}
	l = l[:len(l)-1]
	switch {
	case len(l) > 0 && !c.head.begun && c.first && string(l) == "PRI * HTTP/2.0":
		return c.openHTTP2()
	case len(l) > 0:
		c.lineStart = next
		_, _, fault := c.head.Line(l)
		return fault
	case !c.head.begun && !c.head.blank: // one empty line before a request is ignored, RFC 9112 §2.2
		c.head.blank = true
		c.r, c.ok, c.lineStart = next, next, next
		return nil
	}
	if fault := c.head.End(); fault != nil {
		return fault
	}
	c.ok, c.lineStart = next, next
	c.headDone()
	return nil
}

// openHTTP2 lets the rest of the connection pass; net/http checks the rest of the preface.
func (c *Conn) openHTTP2() *Fault {
	if !c.limits.HTTP2 {
		return errHTTP2
	}
	c.at = atOpaque
	c.stopHeadTimer()
	return nil
}

// headDone goes on to what follows a sound head.
func (c *Conn) headDone() {
	h := c.head
	c.head, c.first = Request{}, false
	c.stopHeadTimer()
	if h.Upgrade || h.connect { // not h.Method: the buffer may have moved
		c.asked.Store(true)
	}
	switch {
	case h.Chunked:
		c.at, c.chunks = atChunks, chunks{}
		c.setInBody(true)
	case h.Length > 0:
		c.at, c.left = atBody, h.Length
		c.setInBody(true)
	default:
		c.messageDone()
	}
}

func (c *Conn) bodyPassed(n int64) {
	if c.left -= n; c.left == 0 {
		c.messageDone()
	}
}

func (c *Conn) screenChunks() *Fault {
	n, done, fault := c.chunks.feed(c.buf[c.ok:c.w])
	c.ok += n
	switch {
	case done:
		c.messageDone()
	case fault != nil && n == 0: // the sound bytes before it go first
		c.fault.Store(fault)
		c.at = atEnd
		return fault
	}
	return nil
}

func (c *Conn) messageDone() {
	if c.at != atHead {
		c.setInBody(false)
	}
	c.at, c.lineStart = atHead, c.ok
	if c.asked.Load() {
		c.at = atHold
	}
}

// refuse puts the stand-in in the place of everything that has not been handed on.
func (c *Conn) refuse(fault *Fault) {
	c.fault.Store(fault)
	c.stopHeadTimer()
	c.buf, c.r, c.ok, c.w = standIn, 0, len(standIn), len(standIn)
	c.at = atEnd
}

// fill reads more. It moves what is left to the front of the buffer, and lets the buffer grow to the head limit.
func (c *Conn) fill() error {
	if c.r > 0 {
		copy(c.buf, c.buf[c.ok:c.w])
		c.lineStart -= c.ok
		c.w -= c.ok
		c.r, c.ok = 0, 0
		if c.w == 0 && len(c.buf) > bufferSize {
			c.buf = make([]byte, bufferSize)
		}
	}
	if c.w == len(c.buf) {
		if len(c.buf) >= c.limits.Head {
			c.refuse(HeadSize)
			return nil
		}
		c.buf = append(c.buf, make([]byte, min(len(c.buf), c.limits.Head-len(c.buf)))...)
	}
	if c.at == atHead && c.w > 0 {
		c.startHeadTimer()
	}
	n, err := c.Conn.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil // an error that came with bytes comes again
	}
	if c.at == atHead && c.w > 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.headLate() {
		c.refuse(HeadTime)
		return nil
	}
	return err
}

// Write bounds how long a client may take nothing, and watches for the server's agreement to another protocol:
// net/http and ReverseProxy write the head of a 101 at the beginning of a call.
func (c *Conn) Write(p []byte) (int, error) {
	if c.asked.Load() && !c.switched.Load() && bytes.HasPrefix(p, []byte("HTTP/1.1 101")) {
		c.switched.Store(true)
	}
	if now := time.Now(); now.UnixNano() > c.writes.Load() {
		c.writes.Store(now.Add(ClientStall / 4).UnixNano())
		_ = c.Conn.SetWriteDeadline(now.Add(ClientStall)) // a closed connection says so in the write
	}
	return c.Conn.Write(p)
}

// Close closes the connection; a refused one is drained for a moment first.
func (c *Conn) Close() error {
	if c.fault.Load() != nil {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *Conn) linger() {
	if c.CloseWrite() == nil && c.Conn.SetReadDeadline(time.Now().Add(LingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
}

// CloseWrite ends the answer's direction, where the connection can do that.
func (c *Conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline sets both directions'.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.Conn.SetWriteDeadline(t))
}

// SetReadDeadline is the server's deadline; a head that is under way may have an earlier one of its own.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverDeadline = t
	return c.applyDeadlineLocked()
}

func (c *Conn) applyDeadlineLocked() error {
	d := c.serverDeadline
	if d.IsZero() || !c.headDeadline.IsZero() && c.headDeadline.Before(d) {
		d = c.headDeadline
	}
	return c.Conn.SetReadDeadline(d)
}

// startHeadTimer begins the time of a head whose first bytes have come; later calls change nothing.
func (c *Conn) startHeadTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headDeadline.IsZero() {
		c.headDeadline = time.Now().Add(c.limits.HeadTime)
		_ = c.applyDeadlineLocked() // a closed connection says so at the next read
	}
}

func (c *Conn) stopHeadTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.headDeadline.IsZero() {
		c.headDeadline = time.Time{}
		_ = c.applyDeadlineLocked()
	}
}

func (c *Conn) setInBody(in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inBody = in
	if !c.headDeadline.IsZero() {
		c.headDeadline = time.Time{}
		_ = c.applyDeadlineLocked()
	}
}

// hurry gives what is left of a body so long to come.
func (c *Conn) hurry(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inBody {
		c.headDeadline = time.Now().Add(d)
		_ = c.applyDeadlineLocked()
	}
}

func (c *Conn) headLate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.headDeadline.IsZero() && !time.Now().Before(c.headDeadline)
}
