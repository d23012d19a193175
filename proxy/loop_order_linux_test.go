package proxy

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"retune/proxy/balance"
)

// stepped is an event loop that runs by the step, so that a test can say what happens between the moment at which the
// loop is told of events and the moment at which it handles them. Everything else is real.
type stepped struct {
	*loop
	t     *testing.T
	batch []unix.EpollEvent
}

func newStepped(t *testing.T, backends ...string) *stepped {
	var servers []*httptest.Server
	for _, b := range backends {
		servers = append(servers, &httptest.Server{URL: "http://" + b})
	}
	p, err := New(Config{
		Rules: filepath.Join(t.TempDir(), "decision-rules.yml"), Backends: configs(t, servers...),
		Engine: EngineEpoll, Log: slog.New(slog.DiscardHandler), Admin: "127.0.0.1:0",
	})
	require.NoError(t, err)
	ln := listenLocal(t)
	t.Cleanup(func() { _ = ln.Close() })
	_, lane := p.newEngine(ln)
	l, err := newLoop(lane)
	require.NoError(t, err)
	t.Cleanup(func() {
		l.shut()
		for _, s := range p.pool.servers {
			require.Zero(t, s.InFlight(), s.ID())
		}
	})
	return &stepped{loop: l, t: t}
}

// listen is told of events, but does not handle them yet.
func (l *stepped) listen() int {
	n := epollWait(uintptr(l.ep), l.events[:])
	l.batch = l.events[:n]
	return n
}

// heed handles what listen has told.
func (l *stepped) heed() {
	l.now = balance.Now()
	for i := range l.batch {
		l.handle(&l.batch[i])
	}
	l.batch = nil
	l.tidy()
}

// until steps on until it holds.
func (l *stepped) until(what string, holds func() bool) {
	l.t.Helper()
	soon(l.t, what, func() bool {
		l.heed()
		l.listen()
		l.heed()
		return holds()
	})
}

// hears listens until there are events, and leaves them.
func (l *stepped) hears() {
	l.t.Helper()
	soon(l.t, "events", func() bool { return l.listen() > 0 })
}

// client is a connection that the loop has accepted, with its end of it.
func (l *stepped) client() (*rawClient, *sock) {
	l.t.Helper()
	ln := listenLocal(l.t)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	require.NoError(l.t, c.SetDeadline(time.Now().Add(longEnough)))
	far, err := ln.Accept()
	require.NoError(l.t, err)
	defer far.Close()
	raw, err := far.(*net.TCPConn).SyscallConn()
	require.NoError(l.t, err)
	fd := -1
	require.NoError(l.t, raw.Control(func(d uintptr) { fd, err = unix.FcntlInt(d, unix.F_DUPFD_CLOEXEC, 0) }))
	require.NoError(l.t, err)
	l.clients.Add(1)
	l.accepted(fd, c.LocalAddr().(*net.TCPAddr).AddrPort().Addr())
	l.until("accepted", func() bool { return true })
	return &rawClient{Conn: c, t: l.t, in: newReader(c)}, l.socks[fd]
}

// upstream accepts the loop's connection to a backend.
func (l *stepped) upstream(ln net.Listener) *rawClient {
	l.t.Helper()
	c, err := ln.Accept()
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	require.NoError(l.t, c.SetDeadline(time.Now().Add(longEnough)))
	return &rawClient{Conn: c, t: l.t, in: newReader(c)}
}

// ask sends a request, and steps on until a backend has it.
func (l *stepped) ask(c *rawClient, s *sock) {
	l.t.Helper()
	c.send(get)
	l.until("passed on", func() bool { return s.work != nil && !s.work.upstream.connecting })
}

// answered steps on until an answer has come whole.
func (l *stepped) answered(c *rawClient) message {
	l.t.Helper()
	got := make(chan message, 1)
	go func() {
		m, err := c.in.answer("GET")
		if err != nil {
			m.body = err.Error()
		}
		got <- m
	}()
	var m message
	l.until("an answer", func() bool {
		select {
		case m = <-got:
			return true
		default:
			return false
		}
	})
	return m
}

// A client may reset its connection at any moment, also between its request and an answer of the proxy's own.
func TestAClientLeavesBeforeTheProxysOwnAnswer(t *testing.T) {
	l := newStepped(t)
	c, s := l.client()
	c.send(get)
	l.hears()
	c.reset()
	l.heed()
	require.True(t, s.dead)
}

func TestAClientLeavesBeforeAnInterimAnswer(t *testing.T) {
	ln := listenLocal(t)
	l := newStepped(t, ln.Addr().String())
	defer ln.Close()
	c, s := l.client()
	l.ask(c, s)
	b := l.upstream(ln)
	b.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	l.hears()
	c.reset()
	l.heed()
	l.until("gone", func() bool { return s.dead })
}

// A backend may reset a connection right after it has accepted it.
func TestABackendResetsANewConnection(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	c.send(post + "Content-Length: 1\r\n\r\na")
	l.until("dialed", func() bool { return s.work != nil })
	l.hears() // the connection is there
	b := l.upstream(ln)
	b.reset()
	l.heed()
	require.Equal(t, 502, l.answered(c).status())
}

// What a backend says as soon as it has accepted a connection, without waiting for a request, is its answer.
func TestABackendAnswersBeforeItIsAsked(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	c.send(get)
	l.listen()
	l.heed() // begins to connect
	require.NotNil(t, s.work)
	b := l.upstream(ln)
	b.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull")
	require.Equal(t, "full", l.answered(c).body)
}

// Bytes that stand behind an answer are nobody's, also where the answer fills the read buffer to its last byte.
func TestBytesBehindAFullBufferAreNoAnswer(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	l.ask(c, s)
	b := l.upstream(ln)
	_, err := b.in.request()
	require.NoError(t, err)
	head := "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: %d\r\n\r\n"
	n := readSize - len(fmt.Sprintf(head, readSize))
	b.send(fmt.Sprintf(head, n) + strings.Repeat("a", n) + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
	l.hears()
	require.Len(t, l.answered(c).body, n)
	c.send(get)
	go func() { // on a new connection, if all is well
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = newReader(conn).request()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")
		}
	}()
	require.Equal(t, "true", l.answered(c).body)
}

// A client that is still taking its last answer when the proxy begins to drain is let go after it.
func TestADrainEndsWithTheAnswerThatAClientIsTaking(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	require.NoError(t, unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for in := newReader(conn); ; {
			if _, err := in.request(); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n"+strings.Repeat("a", 30000))
		}
	}()
	for !s.waiting() || s.work != nil {
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(longEnough)))
		c.send(get)
		l.until("begun", func() bool { return s.work != nil })
		l.until("answered", func() bool { return s.work == nil || s.waiting() })
		if s.waiting() && s.work != nil { // it takes a little of it
			_, err := io.ReadFull(c.Conn, make([]byte, 1000))
			require.NoError(t, err)
			l.until("answered", func() bool { return s.work == nil })
		}
	}
	l.draining.Store(true)
	l.drainIdle()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c.Conn)
		ended <- err
	}()
	l.until("the end", func() bool {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	})
}

// A client may end its side right behind its request. The system tells of that with each event, also when the client
// takes more of its answer; what has been begun in spite of it is brought to its end.
func TestAClientThatEndsItsSideHasItsWholeAnswer(t *testing.T) {
	const size = 8 << 20
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	c.send(get)
	c.endSending()
	l.until("passed on", func() bool { return s.work != nil && !s.work.upstream.connecting })
	b := l.upstream(ln)
	go func() {
		_, _ = io.WriteString(b.Conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", size)+strings.Repeat("a", size)+"\r\n0\r\n\r\n")
	}()
	l.until("more than the client takes", func() bool { return s.dead || s.waiting() })
	require.Len(t, l.answered(c).body, size)
}

// A client that uploads slowly while its answer comes makes progress.
func TestAnUploadIsProgressOfAnAnswerThatHasBegun(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	c.send(post + "Content-Length: 8\r\n\r\nhalf")
	l.until("passed on", func() bool { return s.work != nil && !s.work.upstream.connecting })
	b := l.upstream(ln)
	b.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
	l.until("begun", func() bool { return s.work.answered })
	due := s.due
	c.send("h")
	l.until("more time", func() bool { return s.work.body.Done() || s.due > due })
	require.Equal(t, &l.backendPause, s.timers)
	c.send("alf")
	b.send("half")
	require.Equal(t, "halfhalf", l.answered(c).body)
}

// A request whose head has come in part when the proxy begins to drain is served.
func TestADrainServesTheRequestThatHasBegun(t *testing.T) {
	for name, sent := range map[string]int{"a part is read": 10, "nothing is read yet": 0} {
		t.Run(name, func(t *testing.T) {
			ln := listenLocal(t)
			defer ln.Close()
			l := newStepped(t, ln.Addr().String())
			c, s := l.client()
			c.send(get[:sent])
			l.until("read", func() bool { return len(s.unread) == sent })
			if sent == 0 {
				c.send(get)
				l.hears()
			}
			l.draining.Store(true)
			l.drainIdle()
			if sent > 0 {
				c.send(get[sent:])
			}
			l.until("passed on", func() bool { return s.dead || s.work != nil && !s.work.upstream.connecting })
			require.False(t, s.dead)
			l.upstream(ln).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			a := l.answered(c)
			require.Equal(t, "ok", a.body)
			require.Equal(t, "close", a.get("Connection"))
		})
	}
}

// A client that is slow to take its last answer is waited for as long as it goes on taking, also where what it takes is
// in the kernel already.
func TestAClientMayTakeItsLastAnswerSlowly(t *testing.T) {
	ln := listenLocal(t)
	defer ln.Close()
	l := newStepped(t, ln.Addr().String())
	c, s := l.client()
	require.NoError(t, c.Conn.(*net.TCPConn).SetReadBuffer(4<<10))
	l.ask(c, s)
	l.upstream(ln).send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n" + strings.Repeat("a", 60000))
	l.until("answered", func() bool { return s.work == nil && !s.waiting() })
	late := func() bool {
		l.now = s.due
		l.expire()
		return s.dead
	}
	require.False(t, late(), "the kernel holds its answer")
	soon(t, "it takes some", func() bool {
		_, err := io.ReadFull(c.Conn, make([]byte, 1000))
		require.NoError(t, err)
		left, err := unix.IoctlGetInt(s.fd, unix.TIOCOUTQ)
		require.NoError(t, err)
		return left < s.held
	})
	require.False(t, late(), "it has taken some")
	require.True(t, late(), "it stands still")
}
