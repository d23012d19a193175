package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// message is one request or answer as its bytes came.
type message struct {
	head string // start line and header lines, each with its CRLF, without the empty line
	body string // its data
	raw  string // its body as it came, with the chunks' framing and trailers
}

func (m message) start() string { return m.lines()[0] }

func (m message) lines() []string { return strings.Split(strings.TrimSuffix(m.head, "\r\n"), "\r\n") }

// all is the values of a header, whatever its case, in their order.
func (m message) all(name string) (values []string) {
	for _, l := range m.lines()[1:] {
		if k, v, _ := strings.Cut(l, ":"); strings.EqualFold(k, name) {
			values = append(values, strings.Trim(v, " \t"))
		}
	}
	return values
}

// get is a header's values in one line, as RFC 9110 §5.3 lets one join them.
func (m message) get(name string) string { return strings.Join(m.all(name), ", ") }

func (m message) has(name string) bool { return len(m.all(name)) > 0 }

func (m message) status() int {
	if f := strings.Fields(m.start()); len(f) > 1 {
		n, _ := strconv.Atoi(f[1])
		return n
	}
	return 0
}

// reader reads messages off a connection, and nothing that isn't theirs.
type reader struct{ *bufio.Reader }

func newReader(r io.Reader) reader { return reader{bufio.NewReaderSize(r, 64<<10)} }

// head reads up to the empty line.
func (r reader) head() (m message, err error) {
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			return m, fmt.Errorf("after %q%q: %w", m.head, l, err)
		}
		if l == "\r\n" && m.head != "" {
			return m, nil
		}
		m.head += l
	}
}

// body reads the body behind a head. Without a length it goes on to the end of the connection.
func (r reader) body(m message) (message, error) {
	var err error
	switch {
	case strings.EqualFold(m.get("Transfer-Encoding"), "chunked"):
		err = r.chunks(&m)
	case m.has("Content-Length"):
		n, e := strconv.Atoi(m.get("Content-Length"))
		if e != nil {
			return m, e
		}
		b := make([]byte, n)
		n, err = io.ReadFull(r, b)
		m.body, m.raw = string(b[:n]), string(b[:n])
	default:
		var b []byte
		b, err = io.ReadAll(r)
		m.body, m.raw = string(b), string(b)
	}
	return m, err
}

// chunks reads a chunked body, trailers included.
func (r reader) chunks(m *message) (err error) {
	var raw, data bytes.Buffer
	defer func() { m.raw, m.body = raw.String(), data.String() }()
	for {
		l, err := r.ReadString('\n')
		raw.WriteString(l)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(l, "\r\n"), ";")
		n, err := strconv.ParseInt(size, 16, 63)
		if err != nil {
			return fmt.Errorf("no chunk size: %q", l)
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(io.MultiWriter(&raw, &data), r, n); err != nil {
			return err
		}
		if _, err := io.CopyN(&raw, r, 2); err != nil {
			return err
		}
	}
	for { // trailers
		l, err := r.ReadString('\n')
		raw.WriteString(l)
		if err != nil || l == "\r\n" {
			return err
		}
	}
}

// request reads the next one.
func (r reader) request() (message, error) {
	m, err := r.head()
	if err != nil || !m.has("Content-Length") && !m.has("Transfer-Encoding") {
		return m, err
	}
	return r.body(m)
}

// answer reads the answer to a request of this method.
func (r reader) answer(method string) (message, error) {
	m, err := r.head()
	if s := m.status(); err != nil || method == "HEAD" || s < 200 || s == 204 || s == 304 {
		return m, err
	}
	return r.body(m)
}

// rawClient is a connection to the proxy. What fails fails its test.
type rawClient struct {
	net.Conn
	t  testing.TB
	in reader
}

func (c *rawClient) send(s string) {
	c.t.Helper()
	_, err := io.WriteString(c.Conn, s)
	require.NoError(c.t, err)
}

func (c *rawClient) answer(method string) message {
	c.t.Helper()
	m, err := c.in.answer(method)
	require.NoError(c.t, err, "%.500q%.100q", m.head, m.body)
	return m
}

func (c *rawClient) endSending() {
	c.t.Helper()
	require.NoError(c.t, c.Conn.(*net.TCPConn).CloseWrite())
}

// ended waits for the proxy's end of the connection, with nothing before it.
func (c *rawClient) ended() {
	c.t.Helper()
	b, err := io.ReadAll(c.in)
	require.NoError(c.t, err)
	require.Empty(c.t, string(b))
}

// reset closes without an end: the other side reads an error.
func (c *rawClient) reset() {
	c.t.Helper()
	require.NoError(c.t, c.Conn.(*net.TCPConn).SetLinger(0))
	require.NoError(c.t, c.Close())
}

// rawServer is a backend of raw bytes. Each connection runs its script; health checks are answered aside, and not
// recorded. It keeps every byte that came.
type rawServer struct {
	addr   string
	ln     net.Listener
	script func(*rawConn)
	work   sync.WaitGroup

	mu    sync.Mutex
	got   bytes.Buffer // guarded by mu
	whole []message    // guarded by mu: the requests that came to their end
	open  []net.Conn   // guarded by mu
}

// rawConn is one connection to a rawServer. Where reading or writing fails, the script ends there.
type rawConn struct {
	net.Conn
	server *rawServer
	in     reader
	number int // of the connection, from 1
}

const healthCheck = "GET /healthz "

func rawBackend(t *testing.T, script func(*rawConn)) *rawServer {
	ln := listenLocal(t)
	b := &rawServer{addr: ln.Addr().String(), ln: ln, script: script}
	b.work.Go(b.accept)
	t.Cleanup(func() {
		b.mu.Lock()
		for _, c := range b.open {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.stop()
	})
	return b
}

func (b *rawServer) accept() {
	var number int
	var counting sync.Mutex
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.open = append(b.open, c)
		b.mu.Unlock()
		b.work.Go(func() {
			defer c.Close()
			conn := &rawConn{Conn: c, server: b}
			conn.in = newReader(c)
			first, err := conn.in.Peek(len(healthCheck))
			if len(first) == 0 && err != nil {
				return // a check that was cut off
			}
			if string(first) == healthCheck {
				_, _ = conn.in.request()
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				return
			}
			counting.Lock()
			number++
			conn.number = number
			counting.Unlock()
			conn.in = newReader(io.TeeReader(conn.in.Reader, (*recorder)(b)))
			b.script(conn)
		})
	}
}

// recorder keeps what a script reads, up to a bound.
type recorder rawServer

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got.Len() < 1<<20 {
		r.got.Write(p)
	}
	return len(p), nil
}

// stop ends the server when its scripts have ended: after the proxy has, or the connections were cut.
func (b *rawServer) stop() {
	_ = b.ln.Close()
	b.work.Wait()
}

func (b *rawServer) bytes() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.String()
}

func (b *rawServer) requests() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]message(nil), b.whole...)
}

// answering is a script that answers every request with the same bytes; an answer without a length ends with its
// connection.
func answering(answer string) func(*rawConn) {
	return func(c *rawConn) {
		for {
			c.request()
			c.send(answer)
			if head, _, _ := strings.Cut(answer, "\r\n\r\n"); !strings.Contains(head, "Content-Length") && !strings.Contains(head, "chunked") {
				return
			}
		}
	}
}

// request reads the next one and keeps it.
func (c *rawConn) request() message {
	m, err := c.in.request()
	c.must(err)
	c.keep(m)
	return m
}

// keep counts a request as one that came to its end.
func (c *rawConn) keep(m message) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.whole = append(c.server.whole, m)
}

// head reads a request up to its body.
func (c *rawConn) head() message {
	m, err := c.in.head()
	c.must(err)
	return m
}

func (c *rawConn) send(s string) {
	_, err := io.WriteString(c.Conn, s)
	c.must(err)
}

// rest reads on until the proxy closes or breaks the connection.
func (c *rawConn) rest() (string, error) {
	b, err := io.ReadAll(c.in)
	return string(b), err
}

func (c *rawConn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func (c *rawConn) must(err error) {
	if err != nil {
		runtime.Goexit()
	}
}

// timedOut reports whether err is a deadline's.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// longEnough is a bound for what has to happen: it fails a test, never passes one.
const longEnough = 20 * time.Second
