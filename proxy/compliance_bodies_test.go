package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inChunks frames data as chunks of odd sizes.
func inChunks(data []byte) string {
	var b bytes.Buffer
	for n := 1; len(data) > 0; n = n*3 + 1 {
		n = min(n, len(data))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, data[:n])
		data = data[n:]
		if n > 100_000 {
			n = 1
		}
	}
	return b.String() + "0\r\n\r\n"
}

// Bodies of any size pass whole, both ways, however they are framed.
func TestComplianceBodies(t *testing.T) {
	const size = 2<<20 + 13
	data := make([]byte, size)
	_, _ = rand.Read(data)
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	framed := map[string]string{
		"with a length": "Content-Length: " + strconv.Itoa(size) + "\r\n\r\n" + string(data),
		"chunked":       "Transfer-Encoding: chunked\r\n\r\n" + inChunks(data),
	}
	eachEngine(t, func(t *testing.T, e contender) {
		for name, body := range framed {
			check(t, "up, "+name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					for {
						got := fmt.Sprintf("%x", sha256.Sum256([]byte(conn.request().body)))
						conn.send("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(got)) + "\r\n\r\n" + got)
					}
				}))
				c := p.connect()
				for range 2 {
					c.send(post + body)
					require.Equal(t, sum, c.answer("POST").body)
				}
			})
			check(t, "down, "+name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\n"+body)))
				c := p.connect()
				for range 2 {
					c.send(get)
					require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256([]byte(c.answer("GET").body))))
				}
			})
			check(t, "both ways at once, "+name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					head := conn.head()
					if head.has("Content-Length") {
						conn.send("HTTP/1.1 200 OK\r\nContent-Length: " + head.get("Content-Length") + "\r\n\r\n")
						_, _ = io.CopyN(conn, conn.in, size)
						return
					}
					conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
					_, _ = io.Copy(conn, conn.in) // the chunks as they came
				}))
				c := p.connect()
				go func() { _, _ = io.WriteString(c.Conn, post+body) }()
				require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256([]byte(c.answer("POST").body))))
			})
		}
		// What has come goes on, even if more is announced and doesn't come.
		for name, half := range map[string]string{"with a length": "Content-Length: 10\r\n\r\nhello", "chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"} {
			rest := map[string]string{"with a length": "world", "chunked": "5\r\nworld\r\n0\r\n\r\n"}[name]
			check(t, "the first half at once, "+name, func(t *testing.T) {
				seen := make(chan struct{}, 2)
				b := rawBackend(t, func(conn *rawConn) {
					head := conn.head()
					_, err := conn.in.Peek(5)
					conn.must(err)
					seen <- struct{}{}
					m, err := conn.in.body(head)
					conn.must(err)
					conn.keep(m)
					conn.send("HTTP/1.1 200 OK\r\n" + half)
					<-seen
					conn.send(rest)
				})
				p := e.start(t, nil, b)
				c := p.connect()
				c.send(post + half)
				<-seen
				c.send(rest)
				head, err := c.in.head()
				require.NoError(t, err)
				_, err = c.in.Peek(5)
				require.NoError(t, err)
				seen <- struct{}{}
				m, err := c.in.body(head)
				require.NoError(t, err)
				require.Equal(t, "helloworld", m.body)
				require.Equal(t, "helloworld", b.requests()[0].body)
			})
		}
		check(t, "a refusal overtakes the upload", func(t *testing.T) {
			p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
				conn.head()
				conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
			}))
			c := p.connect()
			c.send(post + "Content-Length: 100000000\r\n\r\n" + strings.Repeat("x", 1<<16))
			a := c.answer("POST")
			require.Equal(t, 413, a.status())
			require.Equal(t, "big", a.body)
			require.Equal(t, "close", a.get("Connection"))
		})
	})
}

// Trailers pass both ways. RFC 9110 §6.5.
func TestComplianceTrailers(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "of a request", func(t *testing.T) {
			got, _ := e.passes(t, post+"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")
			require.True(t, strings.HasSuffix(strings.ToLower(got.raw), "0\r\nx-sum: 7\r\n\r\n"), "%q", got.raw)
			require.Equal(t, "X-Sum", got.get("Trailer"))
			require.False(t, got.has("X-Sum"), "a trailer is no header")
		})
		for name, announced := range map[string]string{"of an answer": "Trailer: X-Sum\r\n", "of an answer, not announced": ""} {
			check(t, name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, answering("HTTP/1.1 200 OK\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")))
				c := p.connect()
				for range 2 {
					c.send("GET / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n")
					a := c.answer("GET")
					require.Equal(t, "hello", a.body)
					require.True(t, strings.HasSuffix(strings.ToLower(a.raw), "0\r\nx-sum: 7\r\n\r\n"), "%q", a.raw)
					require.False(t, a.has("X-Sum"))
				}
			})
		}
	})
}

const (
	mostHeap = 24 << 20 // bytes that the heap may grow while a body passes, the garbage of both ends included
	mostRSS  = 96 << 20
	mostHeld = 64 << 20 // bytes that may be on the way while nobody takes them: sockets' buffers, mostly
	stalled  = 300 * time.Millisecond
)

// memory is the bytes of heap and of resident memory in use; the latter 0 where the system doesn't say.
func memory() (heap, rss int64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, _ := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(b)); len(f) > 1 {
		rss, _ = strconv.ParseInt(f[1], 10, 64)
	}
	return int64(m.HeapInuse), rss * int64(os.Getpagesize())
}

// flat returns a check that memory has not grown beyond the bounds since flat was called.
func flat(t *testing.T) func() {
	runtime.GC()
	heap, rss := memory()
	return func() {
		h, r := memory()
		require.Less(t, h-heap, int64(mostHeap), "the heap grew")
		require.Less(t, r-rss, int64(mostRSS), "resident memory grew")
	}
}

// push writes total bytes. At the first write that nobody takes for a while it tells how many have gone, and waits
// for on.
func push(w net.Conn, total int, held chan<- int, on <-chan struct{}) error {
	block := make([]byte, 256<<10)
	patient := false
	for sent := 0; sent < total; {
		if !patient {
			_ = w.SetWriteDeadline(time.Now().Add(stalled))
		}
		n, err := w.Write(block[:min(len(block), total-sent)])
		sent += n
		switch {
		case timedOut(err) && !patient:
			patient = true
			_ = w.SetWriteDeadline(time.Now().Add(time.Minute))
			held <- sent
			<-on
		case err != nil:
			return err
		}
	}
	if !patient {
		held <- total
	}
	return nil
}

// pull reads total bytes and checks after each 64 MiB.
func pull(r io.Reader, total int, check func()) error {
	for total > 0 {
		n := min(total, 64<<20)
		if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
			return err
		}
		total -= n
		check()
	}
	return nil
}

// While one end takes nothing the other can't send; what passes leaves memory as it is. Not beside other tests.
func TestComplianceBackPressure(t *testing.T) {
	const down, up = 1 << 30, 256 << 20
	for _, e := range contenders {
		name := strings.ReplaceAll(string(e.Engine), "/", "-")
		t.Run(name+"/a slow client reads 1 GiB", func(t *testing.T) {
			held, on := make(chan int, 1), make(chan struct{})
			p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
				conn.head()
				conn.send("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(down) + "\r\n\r\n")
				_ = push(conn.Conn, down, held, on)
			}))
			stays := flat(t)
			c := p.connect()
			require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
			c.send(get)
			_, err := c.in.head()
			require.NoError(t, err)
			require.Less(t, <-held, mostHeld, "the backend is held back")
			stays()
			close(on)
			require.NoError(t, pull(c.in, down, stays))
			e.nobodysFailure(t, p)
		})
		t.Run(name+"/a slow backend reads 256 MiB", func(t *testing.T) {
			held, on := make(chan int, 1), make(chan struct{})
			stays := flat(t)
			p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
				conn.head()
				<-on
				conn.must(pull(conn.in, up, func() {}))
				conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}))
			c := p.connect()
			require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
			c.send(post + "Content-Length: " + strconv.Itoa(up) + "\r\n\r\n")
			pushed := make(chan error, 1)
			go func() { pushed <- push(c.Conn, up, held, on) }()
			require.Less(t, <-held, mostHeld, "the client is held back")
			stays()
			close(on)
			require.NoError(t, <-pushed)
			require.Equal(t, "ok", c.answer("POST").body)
			stays()
		})
	}
}
