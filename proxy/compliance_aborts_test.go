package proxy

import (
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that leaves is aborted upstream, whatever it leaves in the middle of. It is nobody's failure, and
// nothing is in flight when it is gone.
func TestComplianceAborts(t *testing.T) {
	leave := map[string]func(*rawClient){
		"closing":   func(c *rawClient) { _ = c.Close() },
		"resetting": func(c *rawClient) { c.reset() },
	}
	eachEngine(t, func(t *testing.T, e contender) {
		for how, depart := range leave {
			check(t, how+" in a head", func(t *testing.T) {
				b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				p := e.start(t, nil, b)
				c := p.connect()
				c.send("GET /gone HTTP/1.1\r\nHost: x\r\n")
				depart(c)
				p.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				e.nobodysFailure(t, p)
				require.NotContains(t, b.bytes(), "gone")
			})
			for name, body := range map[string]string{
				"a body with a length": "Content-Length: 1000\r\n\r\nhello",
				"a chunk":              "Transfer-Encoding: chunked\r\n\r\nff\r\nhello",
				"a chunk's size":       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
				"trailers":             "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\n",
			} {
				check(t, how+" in "+name, func(t *testing.T) {
					ended := make(chan struct{})
					b := rawBackend(t, func(conn *rawConn) {
						defer close(ended)
						conn.request() // never whole
					})
					p := e.start(t, nil, b)
					c := p.connect()
					c.send(post + body)
					soon(t, "the backend has the beginning", func() bool { return strings.Contains(b.bytes(), "POST / ") })
					depart(c)
					<-ended
					e.nobodysFailure(t, p)
					require.Empty(t, b.requests(), "it never looks whole")
					require.NotContains(t, b.bytes(), "\r\n0\r\n\r\n")
				})
			}
			check(t, how+" before the answer", func(t *testing.T) {
				asked, ended := make(chan struct{}), make(chan struct{})
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					defer close(ended)
					conn.request()
					close(asked)
					_, _ = conn.rest()
				}))
				c := p.connect()
				c.send(get)
				<-asked
				require.EqualValues(t, 1, p.pool.inFlight())
				depart(c)
				<-ended
				e.nobodysFailure(t, p)
			})
			for name, head := range map[string]string{
				"an answer with a length": "Content-Length: 1000000000000\r\n\r\n", "a chunk": "Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n", "an answer without a length": "\r\n",
			} {
				check(t, how+" in "+name, func(t *testing.T) {
					ended := make(chan struct{})
					p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
						defer close(ended)
						conn.request()
						conn.send("HTTP/1.1 200 OK\r\n" + head)
						for block := strings.Repeat("x", 64<<10); ; {
							conn.send(block)
						}
					}))
					c := p.connect()
					c.send(get)
					_, err := io.CopyN(io.Discard, c.in, 1<<20)
					require.NoError(t, err)
					depart(c)
					<-ended
					e.nobodysFailure(t, p)
				})
			}
		}
	})
}

// A client that ends its side of the connection in the middle of an answer may yet take the rest: where that has an
// announced length it comes. What may be endless ends, since nobody may be there for it; so does every answer of net/http.
func TestComplianceClientsThatEndTheirSide(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for name, head := range map[string]string{"a length": "Content-Length: 8\r\n\r\nhalf", "a stream": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
			check(t, name, func(t *testing.T) {
				over := make(chan struct{})
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					conn.request()
					conn.send("HTTP/1.1 200 OK\r\n" + head)
					<-over
					if name == "a length" {
						time.Sleep(4 * watchAfter) // the proxy may have seen it
						conn.send("half")
					}
					_, _ = conn.rest() // until it is aborted, if it has not ended
				}))
				c := p.connect()
				c.send(get)
				m := c.begun()
				c.endSending()
				close(over)
				whole := name == "a length" && e.Engine != EngineNetHTTP
				require.Equal(t, whole, c.restOf(m) == nil)
				_ = c.Close()
				e.nobodysFailure(t, p)
			})
		}
	})
}

// Each client's outcome is counted once, by what happened to it.
func TestComplianceAbortsAreCountedAsSuch(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "aborted", func(t *testing.T) {
			var asked sync.WaitGroup
			p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
				conn.request()
				asked.Done()
				_, _ = conn.rest()
			}))
			var clients []*rawClient
			for range 20 {
				asked.Add(1)
				c := p.connect()
				c.send(get)
				clients = append(clients, c)
			}
			asked.Wait()
			for _, c := range clients {
				require.NoError(t, c.Close())
			}
			e.nobodysFailure(t, p)
			s := p.pool.status(time.Now())[0]
			require.EqualValues(t, 20, s.Requests)
			require.Equal(t, "healthy", s.Health)
			require.Zero(t, p.pool.servers[0].failing.Load())
		})
	})
}

// What is tried again, and what never is. RFC 9110 §9.2.2, RFC 9112 §9.3.1.
func TestComplianceRetries(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	dies := map[string]func(*rawConn){
		"hangs up":                     func(c *rawConn) { c.request() },
		"resets":                       func(c *rawConn) { c.request(); c.reset() },
		"breaks off within a head":     func(c *rawConn) { c.request(); c.send("HTTP/1.1 200 OK\r\nX: ") },
		"answers with what is no HTTP": func(c *rawConn) { c.request(); c.send("hello\r\n\r\n") },
	}
	eachEngine(t, func(t *testing.T, e contender) {
		for how, script := range dies {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "BREW"} {
				check(t, method+" to a backend that "+how, func(t *testing.T) {
					bad, good := rawBackend(t, script), rawBackend(t, answering(ok))
					p := e.start(t, nil, bad, good)
					const requests = 4 // fewer failures in a row than eject it
					failed := 0
					for range requests {
						c := p.connect()
						c.send(method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
						if a := c.answer(method); a.status() != 200 {
							require.Equal(t, 502, a.status())
							failed++
						}
					}
					sent := len(bad.requests())
					require.Positive(t, sent)
					if idempotent(method) {
						require.Zero(t, failed)
						require.Len(t, good.requests(), requests)
					} else {
						require.Equal(t, sent, failed, "each one that broke is told")
						require.Equal(t, requests, sent+len(good.requests()), "each was sent once")
					}
				})
			}
		}
		check(t, "a POST that was never sent", func(t *testing.T) {
			closed := httptest.NewServer(nil)
			closed.Close()
			good := rawBackend(t, answering(ok))
			p := e.over(t, nil, closed, &httptest.Server{URL: "http://" + good.addr})
			for range 4 {
				c := p.connect()
				c.send(post + "Connection: close\r\nContent-Length: 5\r\n\r\nhello")
				require.Equal(t, "ok", c.answer("POST").body)
			}
			require.Len(t, good.requests(), 4)
			require.Equal(t, "hello", good.requests()[3].body)
		})
		check(t, "24 POSTs over connections that the backend has closed", e.staleConnections)
	})
}

// staleConnections fills the pool with connections to a backend, which closes them; then as many POSTs follow.
func (e contender) staleConnections(t *testing.T) {
	const n = 24
	together, over := make(chan struct{}), make(chan struct{}, n)
	var arrived sync.WaitGroup
	arrived.Add(n)
	b := rawBackend(t, func(conn *rawConn) {
		const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		for strings.HasPrefix(conn.request().start(), "POST ") {
			conn.send(ok) // and stays
		}
		arrived.Done()
		<-together // so that each has a connection of its own
		conn.send(ok)
		_ = conn.Conn.(interface{ CloseWrite() error }).CloseWrite()
		_, _ = conn.rest()
		over <- struct{}{} // the proxy has closed its end
	})
	p := e.start(t, nil, b)
	var clients []*rawClient
	for range n {
		c := p.connect()
		c.send("GET /fill HTTP/1.1\r\nHost: x\r\n\r\n")
		clients = append(clients, c)
	}
	arrived.Wait()
	close(together)
	for _, c := range clients {
		require.Equal(t, "ok", c.answer("GET").body)
	}
	for range n {
		<-over
	}
	for _, c := range clients {
		c.send(post + "Content-Length: 5\r\n\r\nhello")
	}
	for _, c := range clients {
		require.Equal(t, "ok", c.answer("POST").body)
	}
	require.Len(t, b.requests(), 2*n, "none was sent twice")
}

// A backend that echoes what a client uploads pauses with it. Neither that nor the client's giving up is held against it.
func TestComplianceASlowUploadIsNotTheBackends(t *testing.T) {
	echo := func(conn *rawConn) {
		head := conn.head()
		conn.send("HTTP/1.1 200 OK\r\nContent-Length: " + head.get("Content-Length") + "\r\n\r\n")
		_, _ = io.Copy(conn.Conn, conn.in)
	}
	const begun = post + "Content-Length: 8\r\n\r\nhalf"
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "a pause", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, echo))
			c := p.connect()
			c.send(begun)
			m := c.begun()
			time.Sleep(stallTime + stallTime/2)
			require.Zero(t, p.pool.servers[0].failing.Load())
			c.send("half")
			require.NoError(t, c.restOf(m))
			e.nobodysFailure(t, p)
		})
		check(t, "no end", func(t *testing.T) {
			p := e.start(t, func(c *Config) { c.RequestTimeout = 2 * time.Second }, rawBackend(t, echo))
			c := p.connect()
			c.send(begun)
			require.Error(t, c.restOf(c.begun()))
			e.nobodysFailure(t, p)
			require.Zero(t, p.pool.servers[0].failing.Load())
		})
	})
}
