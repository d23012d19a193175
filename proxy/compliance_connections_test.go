package proxy

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// How long a connection lives is a matter of its two ends alone: the other side's wishes don't cross the proxy.
// RFC 9112 §9.3, §9.6.
func TestComplianceKeepAlive(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "both sides are kept", func(t *testing.T) {
			numbers := make(chan int, 10)
			p := e.start(t, nil, rawBackend(t, numbered(ok+"\r\nok", numbers)))
			c := p.connect()
			for range 3 {
				c.send(get)
				require.False(t, strings.Contains(c.answer("GET").get("Connection"), "close"))
				require.Equal(t, 1, <-numbers)
			}
		})
		for name, close := range map[string]string{"close": "close", "Close": "Close", "list": "foo, close", "two lines": "foo\r\nConnection: close"} {
			check(t, "the client ends it: "+name, func(t *testing.T) {
				numbers := make(chan int, 10)
				b := rawBackend(t, numbered(ok+"\r\nok", numbers))
				p := e.start(t, nil, b)
				for range 4 * runtime.GOMAXPROCS(0) {
					c := p.connect()
					c.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: " + close + "\r\n\r\n")
					require.Equal(t, "close", c.answer("GET").get("Connection"))
					c.ended()
					require.LessOrEqual(t, <-numbers, runtime.GOMAXPROCS(0), "the backend's are kept, one for each loop")
				}
				require.False(t, strings.Contains(b.requests()[0].get("Connection"), "close"), b.requests()[0].head)
			})
		}
		for name, answer := range map[string]string{
			"close":            ok + "Connection: close\r\n\r\nok",
			"list":             ok + "Connection: foo, Close\r\n\r\nok",
			"of HTTP/1.0":      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
			"saying nothing":   ok + "\r\nok",
			"of HTTP/1.0 kept": "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
		} {
			check(t, "the backend ends it: "+name, func(t *testing.T) {
				ended := make(chan struct{}, 10)
				b := rawBackend(t, func(conn *rawConn) {
					conn.request()
					conn.send(answer)
					_ = conn.Conn.(interface{ CloseWrite() error }).CloseWrite()
					_, _ = conn.rest()
					ended <- struct{}{}
				})
				p := e.start(t, nil, b)
				c := p.connect()
				for range 3 {
					c.send(post + "Content-Length: 1\r\n\r\na") // nothing may get lost on the way
					a := c.answer("POST")
					require.Equal(t, "ok", a.body)
					require.Equal(t, "HTTP/1.1 200 OK", a.start())
					require.False(t, strings.Contains(a.get("Connection"), "close"), "the client's is kept")
					<-ended // the proxy has seen it
				}
			})
		}
		check(t, "HTTP/1.0", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering(ok+"\r\nok")))
			got := p.raw("GET / HTTP/1.0\r\nHost: x\r\n\r\n" + get) // ends after one
			require.Equal(t, 1, strings.Count(got, "HTTP/1."), "%q", got)
		})
		check(t, "HTTP/1.0 kept", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering(ok+"\r\nok")))
			c := p.connect()
			for range 2 {
				c.send("GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
				a := c.answer("GET")
				require.Equal(t, "ok", a.body)
				if !strings.EqualFold(a.get("Connection"), "keep-alive") {
					c.ended() // it may refuse, but then it has to end
					return
				}
			}
		})
		check(t, "a backend's request is of HTTP/1.1", func(t *testing.T) {
			b := rawBackend(t, answering(ok+"\r\nok"))
			p := e.start(t, nil, b)
			p.raw("GET /old HTTP/1.0\r\n\r\n")
			r := b.requests()[0]
			require.Equal(t, "GET /old HTTP/1.1", r.start())
			require.Len(t, r.all("Host"), 1, "HTTP/1.0 may leave it out, HTTP/1.1 may not: %s", r.head)
		})
	})
}

// numbered answers every request, and tells on which connection it came.
func numbered(answer string, numbers chan<- int) func(*rawConn) {
	return func(c *rawConn) {
		for {
			c.request()
			numbers <- c.number
			c.send(answer)
		}
	}
}

// Headers for one connection stay on it: the fixed ones, and those that Connection names. RFC 9110 §7.6.1.
func TestComplianceHopByHop(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "of requests", func(t *testing.T) {
			got, _ := e.passes(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Mine, keep-alive,x-other ,, TE\r\nX-Mine: 1\r\nx-other: 2\r\nX-MINE: 3\r\n"+
				"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nProxy-Authorization: Basic eA==\r\nProxy-Authenticate: Basic\r\nX-End: 4\r\n\r\n")
			for _, name := range []string{"X-Mine", "X-Other", "Keep-Alive", "Proxy-Connection", "TE", "Proxy-Authorization", "Proxy-Authenticate"} {
				require.False(t, got.has(name), got.head)
			}
			require.NotContains(t, strings.ToLower(got.get("Connection")), "x-mine")
			require.Equal(t, "4", got.get("X-End"))
		})
		check(t, "of answers", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Theirs,x-other\r\nX-Theirs: 1\r\nX-OTHER: 2\r\n"+
				"Keep-Alive: timeout=5\r\nProxy-Connection: a\r\nProxy-Authenticate: Basic\r\nX-End: 4\r\n\r\nok")))
			c := p.connect()
			c.send(get)
			a := c.answer("GET")
			for _, name := range []string{"X-Theirs", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Connection"} {
				require.False(t, a.has(name), a.head)
			}
			require.Equal(t, "4", a.get("X-End"))
			require.Equal(t, "ok", a.body)
		})
		// Connection may not name what the message's end, its host or its origin depend on.
		for _, name := range []string{"Content-Length", "Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"} {
			check(t, "a request can't name "+name, func(t *testing.T) {
				got, _ := e.passes(t, post+"Connection: "+name+"\r\nContent-Length: 5\r\n\r\nhello")
				require.Equal(t, "hello", got.body)
				require.Equal(t, "x", got.get("Host"))
				require.Equal(t, "127.0.0.1", got.get("X-Forwarded-For"))
				require.Equal(t, "http", got.get("X-Forwarded-Proto"))
				require.Equal(t, "x", got.get("X-Forwarded-Host"))
			})
		}
		check(t, "a request can't name Transfer-Encoding", func(t *testing.T) {
			got, _ := e.passes(t, post+"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
			require.Equal(t, "hello", got.body)
		})
		for name, answer := range map[string]string{
			"Content-Length":    "Content-Length: 5\r\n\r\nhello",
			"Transfer-Encoding": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		} {
			check(t, "an answer can't name "+name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\nConnection: "+name+"\r\n"+answer)))
				c := p.connect()
				for range 2 {
					c.send(get)
					require.Equal(t, "hello", c.answer("GET").body)
				}
			})
		}
	})
}
