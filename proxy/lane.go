package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// Engine is how plain HTTP/1.1 traffic is served: the fast lane, or none. Whatever it is, the full lane (net/http,
// forward.go) serves what the fast lane does not: TLS, HTTP/2, HTTP/1.0, upgrades, CONNECT, targets other than a path,
// and everything while a backend speaks TLS.
type Engine string

// The engines. All of them obey the same conformance suite.
const (
	// EngineAuto is EngineEpoll on Linux, else EngineGoroutines.
	EngineAuto Engine = "auto"
	// EngineEpoll is an event loop per thread: the least CPU per request. Linux alone.
	EngineEpoll Engine = "epoll"
	// EngineGoroutines is a goroutine per connection, on any system.
	EngineGoroutines Engine = "goroutines"
	// EngineNetHTTP is the full lane for everything.
	EngineNetHTTP Engine = "net/http"
)

// mostIdle bounds the idle connections to one backend: all of them, or of one event loop.
const mostIdle = 512

var headEnd = []byte("\r\n\r\n")

// lane is what every fast lane works with, whatever its engine.
type lane struct {
	choose   *chooser
	meters   *meters
	trusted  []netip.Prefix
	timeouts timeouts
	log      *slog.Logger
	draining *atomic.Bool
	handover *handover
	clock    clock
}

// timeouts are those that a proxy is told; see Config.
type timeouts struct{ head, idle, request time.Duration }

// engine serves a fast lane's connections.
type engine interface {
	// serve accepts connections and serves them. It returns nil after drain or close.
	serve(ln *net.TCPListener) error
	// drain stops accepting, closes idle connections, and waits until the calls in flight have ended, or ctx has.
	drain(ctx context.Context) error
	// close cuts what is left, and returns when nobody serves any more. What is being dialed or handed over at that
	// moment closes when that is over.
	close()
}

// newEngine makes the engine of the fast lane; nil: there is none.
func (p *Proxy) newEngine(front net.Listener) (engine, *lane) {
	kind := p.config.Engine
	_, tcp := front.(*net.TCPListener)
	if kind == EngineNetHTTP || !tcp || p.cert != nil {
		return nil, nil // only a TCP listener's connections can be taken over
	}
	l := &lane{
		choose: p.choose, meters: p.meters, trusted: p.config.Trusted, timeouts: timeouts{p.config.HeadTimeout, p.config.IdleTimeout, p.config.RequestTimeout},
		log: p.log, draining: &p.draining, handover: newHandover(front.Addr()),
	}
	if kind == EngineGoroutines {
		return newGoroutines(l), l
	}
	return newSystemEngine(l), l
}

// peer is a client's end of a connection.
type peer struct {
	addr    netip.Addr
	key     uint64 // for the picker, as long as the peer speaks for itself
	trusted bool
}

// appendOwn appends an answer of the proxy itself, as answerOwn writes it on the full lane. last: the connection ends
// with it. toHEAD leaves its body out.
func (l *lane) appendOwn(dst []byte, status int, cause string, last, toHEAD bool) []byte {
	l.meters.own(cause).Inc()
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	body := text + " (" + cause + ")\n"
	dst = append(dst, "HTTP/1.1 "+text+"\r\nX-Retune-Error: "+cause+"\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Cache-Control: no-store\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\nDate: "...)
	dst = append(dst, l.clock.date()...)
	if last {
		dst = append(dst, "\r\nConnection: close"...)
	}
	dst = append(dst, "\r\n\r\n"...)
	if toHEAD {
		return dst
	}
	return append(dst, body...)
}

// clock writes the time for Date headers, once a second.
type clock struct{ text atomic.Pointer[dated] }

type dated struct {
	second int64
	text   string
}

func (c *clock) date() string {
	now := time.Now()
	d := c.text.Load()
	if d == nil || d.second != now.Unix() {
		d = &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
		c.text.Store(d)
	}
	return d.text
}

// handover is the listener of the full lane: it accepts connections that the fast lane has begun to read.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	addr   net.Addr
}

func newHandover(addr net.Addr) *handover {
	return &handover{make(chan net.Conn), make(chan struct{}), addr}
}

// give hands a connection over, with what has been read of it. It is closed when nobody takes it any more.
func (h *handover) give(c net.Conn, read []byte) {
	select {
	case h.conns <- &readAhead{c, read}:
	case <-h.closed:
		_ = c.Close()
	}
}

// Accept waits for a connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and give. It is called once.
func (h *handover) Close() error {
	close(h.closed)
	return nil
}

// Addr is the traffic listener's.
func (h *handover) Addr() net.Addr { return h.addr }

// readAhead is a connection whose first bytes have been read.
type readAhead struct {
	net.Conn
	read []byte
}

// Read gives those bytes first.
func (c *readAhead) Read(p []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.read)
	c.read = c.read[n:]
	return n, nil
}

// SetLinger says what becomes of a close, as net.TCPConn's does.
func (c *readAhead) SetLinger(seconds int) error {
	if h, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		return h.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// CloseWrite ends the answer's direction.
func (c *readAhead) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
