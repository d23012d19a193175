package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// once is a script that answers the first request of each connection, and closes it.
func once(answer string) func(*rawConn) {
	return func(c *rawConn) {
		c.request()
		c.send(answer)
	}
}

// What a backend may not answer becomes a 502 of the proxy's own, and counts against the backend. Nothing of it
// reaches the client. RFC 9112 §4, §5, §6.3; RFC 9110 §15.
func TestComplianceAnswersRefused(t *testing.T) {
	const evil = "X-Evil: 1\r\n"
	ok := func(lines, body string) string { return "HTTP/1.1 200 OK\r\n" + evil + lines + "\r\n" + body }
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, answer string }{
			{"CL and TE", ok("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "4\r\nevil\r\n0\r\n\r\n")},
			{"TE and CL", ok("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "4\r\nevil\r\n0\r\n\r\n")},
			{"two unequal CL", ok("Content-Length: 2\r\nContent-Length: 4\r\n", "evil")},
			{"two equal CL", ok("Content-Length: 4\r\nContent-Length: 4\r\n", "evil")},
			{"CL list", ok("Content-Length: 4, 4\r\n", "evil")},
			{"CL with a sign", ok("Content-Length: +4\r\n", "evil")},
			{"CL empty", ok("Content-Length:\r\n", "")},
			{"CL over 63 bits", ok("Content-Length: 9223372036854775808\r\n", "evil")},
			{"two TE", ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "4\r\nevil\r\n0\r\n\r\n")},
			{"TE gzip, chunked", ok("Transfer-Encoding: gzip, chunked\r\n", "4\r\nevil\r\n0\r\n\r\n")},
			{"TE xchunked", ok("Transfer-Encoding: xchunked\r\n", "4\r\nevil\r\n0\r\n\r\n")},
			{"TE in HTTP/1.0", "HTTP/1.0 200 OK\r\n" + evil + "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"},
			{"no status line", "evil\r\n\r\n"},
			{"HTTP/0.9", "<html>evil</html>\r\n"},
			{"another protocol", "ICY 200 OK\r\n" + evil + "\r\n"},
			{"lower case", "http/1.1 200 OK\r\n" + evil + "\r\n"},
			{"HTTP/1.2", "HTTP/1.2 200 OK\r\n" + evil + "\r\n"},
			{"HTTP/2.0", "HTTP/2.0 200 OK\r\n" + evil + "\r\n"},
			{"two spaces", "HTTP/1.1  200 OK\r\n" + evil + "\r\n"},
			{"status 000", "HTTP/1.1 000 OK\r\n" + evil + "\r\n"},
			{"status 099", "HTTP/1.1 099 OK\r\n" + evil + "\r\n"},
			{"status 1000", "HTTP/1.1 1000 OK\r\n" + evil + "\r\n"},
			{"status of two digits", "HTTP/1.1 20 OK\r\n" + evil + "\r\n"},
			{"negative status", "HTTP/1.1 -20 OK\r\n" + evil + "\r\n"},
			{"status that is none", "HTTP/1.1 2x0 OK\r\n" + evil + "\r\n"},
			{"NUL in the reason", "HTTP/1.1 200 O\x00K\r\n" + evil + "\r\n"},
			{"bare CR in the reason", "HTTP/1.1 200 O\rK\r\n" + evil + "\r\n"},
			{"bare LF throughout", "HTTP/1.1 200 OK\nX-Evil: 1\nContent-Length: 0\n\n"},
			{"bare LF between headers", ok("A: b\nC: d\r\n", "")},
			{"bare LF at the head's end", "HTTP/1.1 200 OK\r\n" + evil + "\n"},
			{"bare CR in a value", ok("A: b\rC: d\r\n", "")},
			{"NUL in a value", ok("A: \x00\r\n", "")},
			{"obs-fold", ok("A: b\r\n c\r\n", "")},
			{"space before the colon", ok("A : b\r\n", "")},
			{"no name", ok(": b\r\n", "")},
			{"no colon", ok("A\r\n", "")},
			{"quote in a name", ok("\"A\": b\r\n", "")},
			{"oversize head", ok("A: "+strings.Repeat("a", 80<<10)+"\r\n", "")},
			{"endless head", ok("", "")[:20] + strings.Repeat("A: b\r\n", 40<<10)},
			{"head that breaks off", "HTTP/1.1 200 OK\r\n" + evil + "Content-Le"},
			{"nothing", ""},
			{"an interim one alone", "HTTP/1.1 102 Processing\r\n\r\n"},
			{"endless interim ones", strings.Repeat("HTTP/1.1 102 Processing\r\nX-Evil-Interim: 1\r\n\r\n", 10000)},
		} {
			check(t, c.name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, once(c.answer)))
				conn := p.connect()
				conn.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n") // never tried again
				var a message
				for a = conn.answer("POST"); a.status() < 200; a = conn.answer("POST") {
				}
				require.Equal(t, 502, a.status(), a.head)
				require.Equal(t, "broken_answer", a.get("X-Retune-Error"))
				require.False(t, a.has("X-Evil"), a.head)
				require.NotContains(t, a.body, "evil")
				p.blamed(t, 1)
			})
		}
	})
}

// blamed waits until nothing is in flight; the first backend has failed n times.
func (r *running) blamed(t *testing.T, n uint64) {
	t.Helper()
	soon(t, "it is counted", func() bool { return r.pool.inFlight() == 0 && r.pool.status(r.started)[0].Errors == n })
}

// What a backend may answer reaches the client as it is: status line, headers, body. The next answer on the
// client's connection is the next request's.
func TestComplianceAnswersPass(t *testing.T) {
	answer := func(status, lines, body string) string { return "HTTP/1.1 " + status + "\r\n" + lines + "\r\n" + body }
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct {
			name, method, answer string
			start, body          string
			length               string // Content-Length that the client sees; "-": none
		}{
			{"CL", "GET", answer("200 OK", "Content-Length: 5\r\n", "hello"), "HTTP/1.1 200 OK", "hello", "5"},
			{"CL 0", "GET", answer("200 OK", "Content-Length: 0\r\n", ""), "HTTP/1.1 200 OK", "", "0"},
			{"chunked", "GET", answer("200 OK", "Transfer-Encoding: chunked\r\n", "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), "HTTP/1.1 200 OK", "hello", "-"},
			{"chunked, empty", "GET", answer("200 OK", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), "HTTP/1.1 200 OK", "", ""},
			{"HEAD with a length", "HEAD", answer("200 OK", "Content-Length: 5\r\n", ""), "HTTP/1.1 200 OK", "", "5"},
			{"HEAD without a length", "HEAD", answer("200 OK", "", ""), "HTTP/1.1 200 OK", "", ""},
			{"HEAD, chunked", "HEAD", answer("200 OK", "Transfer-Encoding: chunked\r\n", ""), "HTTP/1.1 200 OK", "", "-"},
			{"HEAD with a body", "HEAD", answer("200 OK", "Content-Length: 5\r\n", "hello"), "HTTP/1.1 200 OK", "", "5"},
			{"204", "GET", answer("204 No Content", "", ""), "HTTP/1.1 204 No Content", "", "-"},
			{"204 with a body", "GET", answer("204 No Content", "", "hello"), "HTTP/1.1 204 No Content", "", "-"},
			{"304", "GET", answer("304 Not Modified", "ETag: \"a\"\r\n", ""), "HTTP/1.1 304 Not Modified", "", "-"},
			{"304 with a length", "GET", answer("304 Not Modified", "Content-Length: 5\r\n", ""), "HTTP/1.1 304 Not Modified", "", ""},    // which may keep it, RFC 9110 §8.6
			{"304 with a body", "GET", answer("304 Not Modified", "Content-Length: 5\r\n", "hello"), "HTTP/1.1 304 Not Modified", "", ""}, // which may keep it, RFC 9110 §8.6
			{"205 of no length", "GET", answer("205 Reset Content", "Content-Length: 0\r\n", ""), "HTTP/1.1 205 Reset Content", "", ""},
			{"600", "GET", answer("600 Odd", "Content-Length: 0\r\n", ""), "HTTP/1.1 600", "", "0"},
			{"999", "GET", answer("999 Odd", "Content-Length: 0\r\n", ""), "HTTP/1.1 999", "", "0"},
			{"no reason", "GET", answer("200 ", "Content-Length: 0\r\n", ""), "HTTP/1.1 200", "", "0"},
			{"no reason nor space", "GET", answer("200", "Content-Length: 0\r\n", ""), "HTTP/1.1 200", "", "0"},
			{"many headers", "GET", answer("200 OK", "Content-Length: 0\r\n"+strings.Repeat("A: b\r\n", 1000), ""), "HTTP/1.1 200 OK", "", "0"},
			{"high bytes in a value", "GET", answer("200 OK", "Content-Length: 0\r\nX-A: \xfc\xe4\r\n", ""), "HTTP/1.1 200 OK", "", "0"},
		} {
			check(t, c.name, func(t *testing.T) {
				b := rawBackend(t, func(conn *rawConn) {
					for {
						if r := conn.request(); strings.Contains(r.start(), " /next ") {
							conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
						} else {
							conn.send(c.answer)
						}
					}
				})
				p := e.start(t, nil, b)
				conn := p.connect()
				conn.send(c.method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
				a := conn.answer(c.method)
				require.True(t, strings.HasPrefix(a.start(), c.start), a.head)
				require.Equal(t, c.body, a.body)
				switch c.length {
				case "":
				case "-":
					require.False(t, a.has("Content-Length"), a.head)
				default:
					require.Equal(t, c.length, a.get("Content-Length"))
				}
				conn.send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
				require.Equal(t, "next", conn.answer("GET").body)
			})
		}
	})
}

// A backend's own headers are not the proxy's to mend.
func TestComplianceAnswerHeadersAreKept(t *testing.T) {
	lines := []string{
		"Date: Sun, 06 Nov 1994 08:49:37 GMT", "server: theirs/1.0", "X-CaSe: kept", "Set-Cookie: a=b; Path=/",
		"Set-Cookie: c=d", "X-Empty:", "ETag: W/\"1\"", "X-List: a, b,, c ", "content-type: text/x-odd", "Via: 1.1 theirs",
		"Retry-After: 5", "X-Html: <b>&amp;", "Vary: *",
	}
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "all", func(t *testing.T) {
			sent := "HTTP/1.1 200 Fine, thanks\r\n" + strings.Join(lines, "\r\n") + "\r\nContent-Length: 2\r\n"
			p := e.start(t, nil, rawBackend(t, answering(sent+"\r\nok")))
			c := p.connect()
			c.send(get)
			a := c.answer("GET")
			if e.exact {
				require.Equal(t, sent, a.head)
				return
			}
			for _, l := range append(lines, "Content-Length: 2") {
				name, value, _ := strings.Cut(l, ":")
				require.Contains(t, a.all(name), strings.TrimSpace(value), a.head)
			}
			require.Len(t, a.lines(), len(lines)+2, "nothing is added: %s", a.head)
		})
		check(t, "a Date is added where there is none", func(t *testing.T) { // RFC 9110 §6.6.1
			p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
			c := p.connect()
			c.send(get)
			_, err := http.ParseTime(c.answer("GET").get("Date"))
			require.NoError(t, err)
		})
		check(t, "no type is guessed", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")))
			c := p.connect()
			for range 50 { // net/http does or not, as it happens
				c.send(get)
				require.False(t, c.answer("GET").has("Content-Type"))
			}
		})
	})
}

// An answer without a length ends with its connection. What the client sees of it depends on what it speaks.
func TestComplianceAnswersUntilClose(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			check(t, "of "+version, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, once(version+" 200 OK\r\n\r\nhello")))
				c := p.connect()
				c.send(get)
				a := c.answer("GET")
				require.Equal(t, "hello", a.body)
				require.Equal(t, "HTTP/1.1 200 OK", a.start())
				if !a.has("Transfer-Encoding") {
					require.Equal(t, "close", a.get("Connection"), "nothing else says where it ends")
				}
			})
			check(t, "of "+version+" to HTTP/1.0", func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, once(version+" 200 OK\r\n\r\nhello")))
				got := p.raw("GET / HTTP/1.0\r\n\r\n")
				require.True(t, strings.HasSuffix(got, "\r\n\r\nhello"), "%q", got)
				require.NotContains(t, strings.ToLower(got), "transfer-encoding")
			})
		}
		check(t, "chunked to HTTP/1.0", func(t *testing.T) { // RFC 9112 §6.1: it knows no chunks
			p := e.start(t, nil, rawBackend(t, once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")))
			got := p.raw("GET / HTTP/1.0\r\n\r\n")
			require.True(t, strings.HasSuffix(got, "\r\n\r\nhello"), "%q", got)
			require.NotContains(t, strings.ToLower(got), "transfer-encoding")
		})
	})
}

// An answer that breaks off has to look broken to the client, and counts against the backend.
func TestComplianceBrokenAnswers(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct {
			name, head, body string
			reset            bool
		}{
			{"short of its length", "Content-Length: 100\r\n", "hello", false},
			{"chunk breaks off", "Transfer-Encoding: chunked\r\n", "ff\r\nhello", false},
			{"no last chunk", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n", false},
			{"malformed chunk size", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0x5\r\nworld\r\n0\r\n\r\n", false},
			{"bare LF behind a size", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\n\r\n", false},
			{"malformed trailer", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nA : b\r\n\r\n", false},
			{"reset with a length", "Content-Length: 100\r\n", "hello", true},
			{"reset without a length", "", "hello", true},
		} {
			check(t, c.name, func(t *testing.T) {
				told := make(chan struct{}) // the client has seen the beginning
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					conn.request()
					conn.send("HTTP/1.1 200 OK\r\n" + c.head + "\r\n" + c.body)
					if c.reset {
						<-told
						conn.reset()
					}
				}))
				conn := p.connect()
				conn.send(get)
				head := conn.begun()
				require.Equal(t, 200, head.status())
				close(told)
				require.Error(t, conn.restOf(head), "it looks whole")
				p.blamed(t, 1)
			})
		}
	})
}

// An answer that is cut by the proxy, whatever for, has to look cut. Without a length an orderly end of the connection
// would make it look whole.
func TestComplianceAnswersThatAreCut(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for name, cut := range map[string]func(*running, *rawClient){
			"at the end of a drain":     func(p *running, _ *rawClient) { require.NoError(t, p.stop()) },
			"for a malformed body":      func(_ *running, c *rawClient) { c.send("x\r\n") },
			"when the client ends":      func(_ *running, c *rawClient) { c.endSending() },
			"by the backend's own fall": func(_ *running, c *rawClient) { c.send("4\r\nfall\r\n") },
		} {
			check(t, name, func(t *testing.T) {
				p := e.start(t, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond }, rawBackend(t, func(conn *rawConn) {
					conn.head()
					conn.send("HTTP/1.1 200 OK\r\n\r\nhalf")
					if rest, _ := conn.in.Peek(len("4\r\nhalf\r\n4\r\nfall\r\n")); strings.Contains(string(rest), "fall") {
						conn.reset()
					}
				}))
				c := p.connect()
				c.send(post + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
				head := c.begun()
				cut(p, c)
				require.Error(t, c.restOf(head), "it looks whole")
			})
		}
		for _, drained := range []bool{true, false} { // it knows no chunks
			check(t, fmt.Sprintf("to HTTP/1.0, drained %t", drained), func(t *testing.T) {
				fall := make(chan struct{})
				p := e.start(t, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond }, rawBackend(t, func(conn *rawConn) {
					conn.request()
					conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
					<-fall
				}))
				c := p.connect()
				c.send("GET / HTTP/1.0\r\n\r\n")
				head := c.begun()
				if drained {
					require.NoError(t, p.stop())
					defer close(fall)
				} else {
					close(fall)
				}
				require.Error(t, c.restOf(head), "it looks whole")
			})
		}
	})
}

// begun reads an answer's head, and waits for the beginning of its body.
func (c *rawClient) begun() message {
	c.t.Helper()
	head, err := c.in.head()
	require.NoError(c.t, err)
	_, err = c.in.Peek(1)
	require.NoError(c.t, err)
	return head
}

// restOf reads the body behind a head that has been read, to its end or its break.
func (c *rawClient) restOf(head message) error {
	m, err := reader{c.in.Reader}.body(head)
	if err == nil && !head.has("Content-Length") && !head.has("Transfer-Encoding") {
		return nil // the connection's clean end was its end
	}
	if err != nil {
		return fmt.Errorf("after %q: %w", m.body, err)
	}
	return nil
}

// Bytes behind an answer belong to no request, least of all to the next one on that connection.
func TestComplianceNothingBehindAnAnswerIsHandedOn(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, method, answer string }{
			{"behind a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + evil},
			{"behind the last chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n" + evil},
			{"behind no body", "GET", "HTTP/1.1 204 No Content\r\n\r\n" + evil},
			{"behind HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + evil},
			{"behind an answer of its own end", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood" + evil},
		} {
			check(t, c.name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					for {
						conn.request()
						conn.send(c.answer)
					}
				}))
				conn := p.connect()
				for range 20 { // on one client's connection and on many
					conn.send(c.method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
					require.NotEqual(t, "evil", conn.answer(c.method).body)
					other := p.connect()
					other.send(c.method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
					require.NotEqual(t, "evil", other.answer(c.method).body)
					other.ended()
				}
			})
		}
	})
}

// A backend may answer before it has a body's end, and keep the connection. What the rest of that body looks like says
// nothing of the next request there.
func TestComplianceAnAnswerThatOvertakesItsRequest(t *testing.T) {
	const first = post + "Content-Length: 13\r\n\r\nhello"
	eachEngine(t, func(t *testing.T, e contender) {
		for _, rest := range []string{"HEAD / H", "GET / HT"} {
			check(t, rest, func(t *testing.T) {
				said := make(chan struct{}, 1)
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					for {
						head := conn.head()
						method, _, _ := strings.Cut(head.start(), " ")
						conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + map[string]string{"GET": "whole", "POST": "early"}[method])
						if method == "POST" {
							said <- struct{}{}
							_, err := conn.in.body(head)
							conn.must(err)
						}
					}
				}))
				for range 3 {
					c := p.connect()
					c.send(first)
					<-said
					time.Sleep(5 * time.Millisecond) // net/http keeps the connection if the rest comes in the next 50 ms
					c.send(rest)
					require.Equal(t, "early", c.answer("POST").body)
					c = p.connect()
					for _, method := range []string{"HEAD", "GET", "GET"} {
						c.send(method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
						require.Equal(t, map[string]string{"GET": "whole"}[method], c.answer(method).body)
					}
				}
				e.nobodysFailure(t, p)
			})
		}
	})
}
