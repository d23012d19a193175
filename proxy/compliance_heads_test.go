package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A head is bounded in size; what stays below the bound passes, however many headers it has.
func TestComplianceHeadSize(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		const start = "GET / HTTP/1.1\r\nHost: x\r\n"
		for _, c := range []struct{ name, request string }{
			{"one header", start + "A: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"},
			{"many headers", start + strings.Repeat("A: b\r\n", 20<<10) + "\r\n"},
			{"target", "GET /" + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n"},
			{"no end", start + strings.Repeat("A: b\r\n", 200<<10)},
			{"no line", strings.Repeat("a", 70<<10)},
		} {
			check(t, c.name, func(t *testing.T) { e.refused(t, c.request, 431) })
		}
		check(t, "3000 headers pass", func(t *testing.T) {
			got, _ := e.passes(t, start+strings.Repeat("A: b\r\n", 3000)+"\r\n")
			require.Len(t, got.all("A"), 3000)
		})
		check(t, "a header of 40 KiB passes", func(t *testing.T) {
			got, _ := e.passes(t, start+"A: "+strings.Repeat("a", 40<<10)+"\r\n\r\n")
			require.Len(t, got.get("A"), 40<<10)
		})
	})
}

// The order of headers and the case of their names may matter to a backend. net/http keeps neither.
func TestComplianceRequestHeadersAreKept(t *testing.T) {
	lines := []string{
		"Host: x", "x-LOWER-Upper: a", "Accept: */*", "B: 1", "A: 2", "B: 3", "X-Empty:", "user-agent: curl/0",
		"Cookie: a=b; c=d", "Cookie: e=f", "X-Tabs: \ta\tb", "Authorization: Basic eA==", "X-Bytes: \xfc\xe4", "Via: 1.0 front",
	}
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "all", func(t *testing.T) {
			got, _ := e.passes(t, "GET / HTTP/1.1\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n")
			kept := got.lines()[1:]
			if e.exact {
				require.Equal(t, lines, kept[:len(lines)])
			}
			for _, l := range lines {
				name, value, _ := strings.Cut(l, ":")
				require.Contains(t, got.all(name), strings.Trim(value, " \t"), got.head)
			}
			require.Equal(t, []string{"1", "3"}, got.all("B"))
			require.Len(t, kept, len(lines)+len([]string{"X-Forwarded-For", "-Proto", "-Host"}), "nothing else is added: %s", got.head)
		})
		check(t, "none of a user agent that has none", func(t *testing.T) {
			got, _ := e.passes(t, get)
			for _, name := range []string{"User-Agent", "Accept-Encoding", "Content-Length", "Transfer-Encoding"} {
				require.False(t, got.has(name), got.head)
			}
		})
	})
}

// Requests may come before the answers to those before them. The answers keep the order.
func TestCompliancePipelining(t *testing.T) {
	echo := func(c *rawConn) {
		for {
			r := c.request()
			text := strings.Fields(r.start())[1] + r.body
			c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		}
	}
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "ten at once", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, echo))
			c := p.connect()
			var all string
			for i := range 10 {
				all += fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
			}
			c.send(all)
			for i := range 10 {
				require.Equal(t, fmt.Sprint("/", i), c.answer("GET").body)
			}
		})
		check(t, "with bodies, in pieces", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, echo))
			c := p.connect()
			const all = "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" +
				"POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x\r\nf\r\n0\r\n\r\n" +
				"GET /3 HTTP/1.1\r\nHost: x\r\n\r\n" + "POST /4 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" +
				"DELETE /5 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\ngh"
			for piece := 1; piece < len(all); piece = 2*piece + 1 {
				for rest := all; rest != ""; {
					n := min(piece, len(rest))
					c.send(rest[:n])
					rest = rest[n:]
				}
				for _, want := range []string{"/1abc", "/2def", "/3", "/4", "/5gh"} {
					require.Equal(t, want, c.answer("").body)
				}
			}
		})
		check(t, "a bad one behind three good ones", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, echo))
			c := p.connect()
			c.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na" +
				"HEAD /3 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\nHost: x\n\n" + smuggled)
			require.Equal(t, "/1", c.answer("GET").body)
			require.Equal(t, "/2a", c.answer("POST").body)
			require.Equal(t, "2", c.answer("HEAD").get("Content-Length"))
			bad := c.answer("GET")
			require.Equal(t, 400, bad.status())
			require.Equal(t, "malformed_request", bad.get("X-Retune-Error"))
			c.ended()
		})
		check(t, "nothing behind the last one", func(t *testing.T) {
			b := rawBackend(t, echo)
			p := e.start(t, nil, b)
			got := p.raw("GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + smuggled)
			require.Equal(t, 1, strings.Count(got, "HTTP/1.1 200"), "%q", got)
			require.NotContains(t, b.bytes(), "smuggled")
		})
		check(t, "a fault behind a failure keeps its own answer", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, once("")))
			c := p.connect()
			c.send(get + "GET / HTTP/1.1\nHost: x\n\n")
			require.Equal(t, 502, c.answer("GET").status())
			require.Equal(t, 400, c.answer("GET").status())
		})
		check(t, "the client ends its side", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, echo))
			c := p.connect()
			got := c.halfClosed("GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			require.True(t, got == "" || strings.HasSuffix(got, "/1"), "answered or aborted, but not half: %q", got)
		})
		check(t, "CONNECT behind another, in pieces", func(t *testing.T) {
			b := rawBackend(t, echo)
			p := e.start(t, nil, b)
			c := p.connect()
			for _, piece := range []string{"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nCONN", "ECT x:80 HT", "TP/1.1\r\nHost: x:80\r\n\r\n" + smuggled} {
				c.send(piece)
			}
			require.Equal(t, "/1", c.answer("GET").body)
			require.Equal(t, 405, c.answer("CONNECT").status())
			c.ended()
			require.NotContains(t, b.bytes(), "smuggled")
		})
	})
}

// Whoever sends too slowly is cut, and holds nothing. RFC 9110 §15.5.9.
func TestComplianceSlowClients(t *testing.T) {
	const short = 300 * time.Millisecond
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct {
			name, sent string
			status     int // 0: the connection ends without a word
		}{
			{"nothing", "", 0},
			{"a byte", "G", 408},
			{"half a request line", "GET /a", 408},
			{"a head without its end", "GET / HTTP/1.1\r\nHost: x\r\n", 408},
			{"half a second head", get + "GET /2 HT", 408},
		} {
			check(t, c.name, func(t *testing.T) {
				p := e.start(t, func(c *Config) { c.HeadTimeout = short }, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
				got := p.raw(c.sent) // until the proxy ends it
				if c.status == 0 {
					require.Empty(t, got)
					return
				}
				last := got[max(0, strings.LastIndex(got, "HTTP/1.1 ")):]
				require.True(t, strings.HasPrefix(last, fmt.Sprintf("HTTP/1.1 %d ", c.status)), "%q", got)
			})
		}
		check(t, "a head drop by drop", func(t *testing.T) { // the bound is on the whole of it
			p := e.start(t, func(c *Config) { c.HeadTimeout = short }, rawBackend(t, answering("")))
			c := p.connect()
			go func() {
				_, _ = io.WriteString(c.Conn, "GET / HTTP/1.1\r\nHost: x\r\n")
				for err := error(nil); err == nil; time.Sleep(short / 10) {
					_, err = io.WriteString(c.Conn, "A: b\r\n")
				}
			}()
			require.Equal(t, http.StatusRequestTimeout, c.answer("GET").status())
			_ = c.Close()
		})
		check(t, "between requests", func(t *testing.T) {
			p := e.start(t, func(c *Config) { c.IdleTimeout = short }, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
			c := p.connect()
			c.send(get)
			require.Equal(t, 200, c.answer("GET").status())
			c.ended()
		})
		for name, body := range map[string]string{
			"a body with a length": "Content-Length: 1000\r\n\r\n1",
			"a chunk":              "Transfer-Encoding: chunked\r\n\r\nff\r\n1",
			"a chunk's size":       "Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n5",
		} {
			check(t, name, func(t *testing.T) {
				p := e.start(t, func(c *Config) { c.RequestTimeout = 3 * short }, rawBackend(t, answering("")))
				e.refusal(t, p, post+body, 408)
				e.nobodysFailure(t, p)
			})
		}
	})
}
