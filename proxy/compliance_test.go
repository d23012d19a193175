package proxy

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The compliance suite: what the proxy does with bytes, whatever engine reads them. Every check is a named
// subtest that runs against each engine, over real sockets: raw bytes go in, and what is asserted are the bytes
// that the backend (a rawBackend) and the client got. RFC numbers stand beside what isn't obvious.
//
//	framing      where a request ends: lengths, codings, line ends, chunks
//	targets      request targets and Host
//	heads        bounds of size and time, pipelining
//	interim      1xx
//	answers      what backends answer, sound or not
//	connections  keep-alive and hop-by-hop headers
//	forwarded    who the client is said to be
//	upgrade      WebSocket and other protocols
//	http2, tls   HTTP/2 on the front, with and without TLS
//	bodies       large ones, trailers, back-pressure
//	aborts       clients and backends that leave, and what is tried again

// contender is an engine with what is expected of it beyond what all have to do.
type contender struct {
	Engine
	exact bool // keeps order and case of header names; net/http's maps forget both
}

var contenders = []contender{
	{Engine: EngineNetHTTP},
	{Engine: EngineEpoll, exact: true}, // on Linux
	{Engine: EngineGoroutines, exact: true},
}

// eachEngine runs a group of checks against every engine.
func eachEngine(t *testing.T, checks func(t *testing.T, e contender)) {
	t.Parallel()
	for _, e := range contenders {
		check(t, strings.ReplaceAll(string(e.Engine), "/", "-"), func(t *testing.T) { checks(t, e) })
	}
}

// check is one subtest; the checks of a group run at the same time.
func check(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t)
	})
}

// start runs a proxy of this engine over raw backends. change may alter its configuration.
func (e contender) start(t *testing.T, change func(*Config), backends ...*rawServer) *running {
	t.Helper()
	var servers []*httptest.Server
	for _, b := range backends {
		servers = append(servers, &httptest.Server{URL: "http://" + b.addr})
	}
	return e.over(t, change, servers...)
}

// over runs a proxy of this engine over servers of net/http.
func (e contender) over(t *testing.T, change func(*Config), servers ...*httptest.Server) *running {
	t.Helper()
	return start(t, func(c *Config) {
		c.Engine = e.Engine
		if change != nil {
			change(c)
		}
	}, servers...)
}

// refused sends a request that has to be answered by the proxy itself, with one of the statuses and as the last
// answer of its connection. Nothing of it may have reached the backend.
func (e contender) refused(t *testing.T, request string, statuses ...int) {
	t.Helper()
	b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	p := e.start(t, nil, b)
	got := e.refusal(t, p, request, statuses...)
	require.NoError(t, p.stop())
	b.stop()
	require.Empty(t, b.bytes(), "nothing reaches the backend; the client got %q", got)
}

func (e contender) refusal(t *testing.T, p *running, request string, statuses ...int) string {
	t.Helper()
	got := p.raw(request)
	require.True(t, strings.HasPrefix(got, "HTTP/1.1 "), "%q", got)
	var status int
	_, err := fmt.Sscanf(got, "HTTP/1.1 %d ", &status)
	require.NoError(t, err, "%q", got)
	require.Contains(t, statuses, status, "%q", got)
	require.Equal(t, 1, strings.Count(got, "HTTP/1."), "one answer, then the end: %q", got)
	require.Contains(t, strings.ToLower(got), "\r\nconnection: close\r\n")
	require.Contains(t, strings.ToLower(got), "\r\nx-retune-error: ")
	return got
}

// passes sends a request that is sound, followed by a plain one on the same connection. It returns what the
// backend got of the first, and the answers.
func (e contender) passes(t *testing.T, request string) (got message, answers []message) {
	t.Helper()
	b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := e.start(t, nil, b)
	c := p.connect()
	c.send(request)
	method, _, _ := strings.Cut(strings.TrimLeft(request, "\r\n"), " ")
	answers = append(answers, c.answer(method))
	c.send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
	answers = append(answers, c.answer("GET"))
	for _, a := range answers {
		require.Equal(t, 200, a.status(), "%s%s", a.head, a.body)
	}
	all := b.requests()
	require.Len(t, all, 2)
	require.Equal(t, "GET /next HTTP/1.1", all[1].start(), "the request behind it is read where it begins")
	return all[0], answers
}

// connect is a raw connection to the proxy.
func (r *running) connect() *rawClient {
	r.t.Helper()
	c := r.dial()
	r.t.Cleanup(func() { _ = c.Close() })
	return &rawClient{Conn: c, t: r.t, in: newReader(c)}
}

// halfClosed sends what there is, ends that direction, and returns all that comes back.
func (c *rawClient) halfClosed(request string) string {
	c.t.Helper()
	c.send(request)
	c.endSending()
	b, err := io.ReadAll(c.in)
	require.NoError(c.t, err)
	return string(b)
}
