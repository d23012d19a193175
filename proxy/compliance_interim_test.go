package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What comes before an answer: 100 Continue and its like. RFC 9110 §10.1.1, §15.2.
func TestComplianceInterim(t *testing.T) {
	const expect = post + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	eachEngine(t, func(t *testing.T, e contender) {
		// The client sends its body only when it is told to.
		waits := func(t *testing.T, script func(*rawConn)) (*rawClient, *rawServer) {
			b := rawBackend(t, script)
			c := e.start(t, nil, b).connect()
			c.send(expect)
			return c, b
		}
		check(t, "100 from the backend", func(t *testing.T) {
			c, b := waits(t, func(conn *rawConn) {
				for {
					head := conn.head()
					if head.has("Expect") {
						conn.send("HTTP/1.1 100 Continue\r\n\r\n")
					}
					if m, err := conn.in.body(head); err == nil {
						conn.keep(m)
					}
					conn.send(ok)
				}
			})
			require.Equal(t, 100, c.answer("POST").status())
			c.send("hello" + post + "Content-Length: 0\r\n\r\n")
			require.Equal(t, 200, c.answer("POST").status(), "100 is said once")
			require.Equal(t, 200, c.answer("POST").status())
			require.Equal(t, "hello", b.requests()[0].body)
		})
		check(t, "a final answer at once", func(t *testing.T) {
			c, _ := waits(t, func(conn *rawConn) {
				conn.head()
				conn.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
				_, _ = conn.rest()
			})
			a := c.answer("POST")
			if e.Engine == EngineNetHTTP && a.status() == 100 { // it reads the body that it has an answer to, if it is quick
				a = c.answer("POST")
			}
			require.Equal(t, 417, a.status(), a.head)
			require.Equal(t, "no", a.body)
			if a.get("Connection") == "close" {
				c.ended() // what the client would send next may be the body or a request
			}
		})
		check(t, "no word from the backend", func(t *testing.T) {
			b := rawBackend(t, func(conn *rawConn) { _, _ = conn.rest() })
			p := e.start(t, func(c *Config) { c.RequestTimeout = 300 * time.Millisecond }, b)
			c := p.connect()
			c.send(expect)
			a := c.answer("POST")
			require.Equal(t, 504, a.status(), "not the client's fault: %s", a.head)
			require.Equal(t, "timeout", a.get("X-Retune-Error"))
			require.EqualValues(t, 1, p.statusOf("a").Errors)
		})
		check(t, "no body after 100", func(t *testing.T) {
			b := rawBackend(t, func(conn *rawConn) {
				conn.head()
				conn.send("HTTP/1.1 100 Continue\r\n\r\n")
				_, _ = conn.rest()
			})
			p := e.start(t, func(c *Config) { c.RequestTimeout = 2 * time.Second }, b)
			c := p.connect()
			c.send(expect)
			require.Equal(t, 100, c.answer("POST").status())
			a := c.answer("POST")
			require.Equal(t, 408, a.status(), "the client's fault: %s", a.head)
			e.nobodysFailure(t, p)
		})
		check(t, "the client doesn't wait", func(t *testing.T) {
			b := rawBackend(t, answering(ok))
			c := e.start(t, nil, b).connect()
			c.send(expect + "hello" + post + "Content-Length: 0\r\n\r\n")
			for range 2 {
				a := c.answer("POST")
				for a.status() == 100 {
					a = c.answer("POST")
				}
				require.Equal(t, 200, a.status(), a.head)
			}
			require.Equal(t, "hello", b.requests()[0].body)
		})
		check(t, "Expect of HTTP/1.0 is ignored", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering(ok)))
			got := p.raw("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
			require.Contains(t, got, " 200 OK\r\n")
			require.NotContains(t, got, " 100 ")
		})
		check(t, "Expect without a body", func(t *testing.T) {
			c := e.start(t, nil, rawBackend(t, answering(ok))).connect()
			c.send("GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n" + get)
			for range 2 {
				a := c.answer("GET")
				for a.status() == 100 {
					a = c.answer("GET")
				}
				require.Equal(t, 200, a.status(), a.head)
			}
		})

		const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
		check(t, "103 is passed on before the answer", func(t *testing.T) {
			answer := make(chan struct{})
			p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
				conn.request()
				conn.send(hints)
				<-answer
				conn.send(strings.Repeat(hints, 3) + ok)
				_, _ = conn.rest()
			}))
			c := p.connect()
			c.send(get)
			first := c.answer("GET")
			require.Equal(t, 103, first.status())
			require.Equal(t, "</a.css>; rel=preload", first.get("Link"))
			close(answer)
			for range 3 {
				require.Equal(t, 103, c.answer("GET").status())
			}
			last := c.answer("GET")
			require.Equal(t, "ok", last.body)
			require.False(t, last.has("Link"), "a hint's headers are its own: %s", last.head)
		})
		check(t, "103 while the client waits for 100", func(t *testing.T) {
			c, b := waits(t, func(conn *rawConn) {
				head := conn.head()
				conn.send(hints) // and never says 100: net/http says it itself after a while
				m, err := conn.in.body(head)
				conn.must(err)
				conn.keep(m)
				conn.send(ok)
			})
			var got []int
			for a := c.answer("POST"); ; a = c.answer("POST") {
				if got = append(got, a.status()); a.status() == 103 {
					require.Equal(t, "</a.css>; rel=preload", a.get("Link"))
					c.send("hello")
				} else {
					require.False(t, a.has("Link"), "a hint's headers are its own: %s", a.head)
				}
				if a.status() == 200 {
					break
				}
			}
			if e.Engine == EngineNetHTTP {
				require.Equal(t, []int{100, 103, 200}, got)
			} else {
				require.Equal(t, []int{103, 200}, got)
			}
			require.Equal(t, "hello", b.requests()[0].body)
		})
		check(t, "none of it to HTTP/1.0", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, once(hints+"HTTP/1.1 102 Processing\r\n\r\n"+ok)))
			got := p.raw("GET / HTTP/1.0\r\n\r\n")
			require.Equal(t, 1, strings.Count(got, "HTTP/1."), "%q", got)
			require.Contains(t, got, " 200 OK\r\n")
		})
		check(t, "hop-by-hop headers of a hint stay", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: a\r\nX-Retune-Error: forged\r\nLink: a\r\n\r\n"+ok)))
			c := p.connect()
			c.send(get)
			first := c.answer("GET")
			require.Equal(t, "a", first.get("Link"))
			for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "X-Retune-Error"} {
				require.False(t, first.has(name), first.head)
			}
			require.Equal(t, 200, c.answer("GET").status())
		})
	})
}
