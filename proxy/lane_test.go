package proxy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A backend may be named by its host, and live on IPv6; connections to it are kept all the same.
func TestBackendsByNameAndOnIPv6(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, host := range []string{"localhost", "[::1]"} {
			check(t, host, func(t *testing.T) {
				var connections atomic.Int64
				s := httptest.NewUnstartedServer(says("here"))
				if host == "[::1]" {
					ln, err := net.Listen("tcp", "[::1]:0")
					if err != nil {
						t.Skip("this machine has no IPv6: ", err)
					}
					_ = s.Listener.Close()
					s.Listener = ln
				}
				s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						connections.Add(1)
					}
				}
				s.Start()
				t.Cleanup(s.Close)
				u, err := url.Parse(s.URL)
				require.NoError(t, err)
				p := e.over(t, func(c *Config) {
					c.Health.Path = "/" // counted as well
					c.Backends = []BackendConfig{{ID: "a", URL: &url.URL{Scheme: "http", Host: host + ":" + u.Port()}, Weight: 1}}
				})
				for range 5 {
					res, body := p.get("/")
					require.Equal(t, 200, res.StatusCode)
					require.Equal(t, "here", body)
				}
				require.LessOrEqual(t, connections.Load(), int64(3), "one for the requests, one or two for health checks")
			})
		}
	})
}

// A name that can't be reached is a failure to connect: nothing was sent, so that even a POST goes elsewhere.
func TestABackendWhoseNameLeadsNowhere(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		ln := listenLocal(t)
		_, port, err := net.SplitHostPort(ln.Addr().String())
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		p := e.over(t, func(c *Config) {
			c.Backends = append(c.Backends, BackendConfig{ID: "gone", URL: &url.URL{Scheme: "http", Host: "localhost:" + port}, Weight: 1})
		}, backend(t, says("here")))
		for range 4 {
			res, err := p.client.Post(p.url, "text/plain", nil)
			require.NoError(t, err)
			require.Equal(t, "here", read(t, res))
		}
	})
}

// A request that came while all backends spoke plain HTTP is never sent to one that came into use since and speaks TLS:
// that would read it in clear, and its answer, a refusal, would look like the request's.
func TestASecondTryIsNeverPlainToABackendThatSpeaksTLS(t *testing.T) {
	const waiting = 8
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	eachEngine(t, func(t *testing.T, e contender) {
		if e.Engine == EngineNetHTTP {
			t.Skip("it speaks TLS")
		}
		for name, status := range map[string]int{"nor to any other": 502, "but to the plain one": 200} {
			check(t, name, func(t *testing.T) {
				die := make(chan struct{})
				a := rawBackend(t, func(c *rawConn) { c.request(); <-die })
				secure, plain := rawBackend(t, answering(ok+"no")), rawBackend(t, answering(ok+"ok"))
				p := e.start(t, rarely, a)
				var clients []*rawClient
				for range waiting {
					c := p.connect()
					c.send("GET / HTTP/1.1\r\nHost: x\r\nCookie: secret\r\n\r\n")
					clients = append(clients, c)
				}
				soon(t, "all wait", func() bool { return len(a.requests()) == waiting })
				p.must(201, nil, "PUT", "/alb/backends/secure", `{"url":"https://`+secure.addr+`","weight":1}`)
				if status == 200 {
					p.must(201, nil, "PUT", "/alb/backends/plain", `{"url":"http://`+plain.addr+`","weight":1}`)
				}
				close(die)
				for _, c := range clients {
					require.Equal(t, status, c.answer("GET").status())
				}
				require.NotContains(t, secure.bytes(), "secret")
			})
		}
	})
}
