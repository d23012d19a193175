package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// Backend is a connection to a backend behind the screen of answers: net/http, which reads from it, sees no answer
// that two parsers could read in two ways, and nothing that stands behind one. It serves one request after the
// other, each with a context of Asking. Reads come from one goroutine at a time.
type Backend struct {
	net.Conn
	limit int          // bytes of a head
	due   atomic.Int32 // whether an answer is: one of the constants below

	// All below belongs to the reading goroutine.
	head  []byte // the head that is coming
	line  int    // where in head its last line begins
	pass  []byte // what may be handed on
	body  Body
	other bool  // the backend switched protocols: nothing is looked at
	fault error // why nothing more is handed on, behind pass
}

const (
	nothingDue int32 = iota
	answerDue
	answerToHEADDue
)

// errUnaskedBytes is what a backend sends without a request: behind an answer, or on an idle connection.
var errUnaskedBytes = errors.New("the backend sent bytes that nobody asked for")

// NewBackend puts a new connection behind the screen. limit bounds an answer's head, in bytes.
func NewBackend(c net.Conn, limit int) *Backend { return &Backend{Conn: c, limit: limit} }

// Asking is the context for a request of this method: the Backend that net/http's transport finds for it is told which
// answer is due. What is written there does not tell: the rest of a body that was answered before its end may look like
// the beginning of any request.
func Asking(ctx context.Context, method string) context.Context {
	if method == http.MethodHead {
		return httptrace.WithClientTrace(ctx, askingHEAD)
	}
	return httptrace.WithClientTrace(ctx, asking)
}

var asking, askingHEAD = expecting(answerDue), expecting(answerToHEADDue)

func expecting(due int32) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { i.Conn.(*Backend).due.Store(due) }}
}

// Read hands on what has passed. A fault is its error: a *Fault, or that bytes came which nobody asked for.
func (c *Backend) Read(p []byte) (int, error) {
	for {
		switch {
		case len(c.pass) > 0:
			n := copy(p, c.pass)
			c.pass = c.pass[n:]
			return n, nil
		case c.fault != nil:
			return 0, c.fault
		case c.other:
			return c.Conn.Read(p)
		case !c.body.Done():
			return c.readBody(p)
		}
		if c.screenHead(); len(c.pass) > 0 || c.fault != nil {
			continue
		}
		n, err := c.Conn.Read(p)
		c.head = append(c.head, p[:n]...)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) && len(c.head) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

func (c *Backend) readBody(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	m := c.feed(p[:n])
	if m < n {
		err = nil // there is one of ours
	}
	return m, err
}

// feed walks over bytes behind a head and says how many may be handed on.
func (c *Backend) feed(p []byte) int {
	n, fault := c.body.Feed(p)
	switch {
	case fault != nil:
		c.fault = fault
	case c.body.Done():
		c.due.Store(nothingDue)
		if n < len(p) {
			c.fault = errUnaskedBytes
		}
	}
	return n
}

// screenHead walks the lines of a head, and judges it when it is whole.
func (c *Backend) screenHead() {
	if len(c.head) > 0 && c.due.Load() == nothingDue {
		c.fault = errUnaskedBytes
		return
	}
	for {
		i := bytes.IndexByte(c.head[c.line:], '\n')
		switch {
		case len(c.head) > c.limit && (i < 0 || c.line+i >= c.limit):
			c.fault = HeadSize
			return
		case i < 0:
			return
		case i == 0 || c.head[c.line+i-1] != '\r':
			c.fault = BareLF
			return
		}
		c.line += i + 1
		if i == 1 {
			c.headDone()
			return
		}
	}
}

// headDone judges a whole head. What follows an interim one is another head.
func (c *Backend) headDone() {
	a, fault := ParseAnswer(c.head[:c.line])
	if fault != nil {
		c.fault = fault
		return
	}
	head, rest := c.head[:c.line:c.line], c.head[c.line:]
	c.pass, c.head, c.line = head, nil, 0
	switch {
	case a.Status == 101:
		c.other, c.pass = true, append(head, rest...)
	case a.Status < 200:
		c.head = rest
	default:
		c.body = AnswerBody(&a, c.due.Load() == answerToHEADDue)
		c.pass = append(head, rest[:c.feed(rest)]...)
	}
}

// CloseWrite ends the request's direction, where the connection can do that: a tunnel's.
func (c *Backend) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
