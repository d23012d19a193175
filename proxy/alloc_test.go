//go:build !race

// Under the race detector a sync.Pool drops at random what is given back, so nothing can be said of allocations.

package proxy

import (
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const plainAnswer = "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 06:00:00 GMT\r\nContent-Length: 5\r\n\r\nhello"

// frugal is a backend that allocates nothing per request. It takes a read for a request.
func frugal(t testing.TB) *httptest.Server {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, answer := make([]byte, 4096), []byte(plainAnswer)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &httptest.Server{URL: "http://" + ln.Addr().String()}
}

// ask sends n requests over one connection and waits for each answer; it allocates nothing per request.
func ask(t testing.TB, c net.Conn, n int) {
	request, buf := []byte("GET /a HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n"), make([]byte, 4096)
	for range n {
		_, err := c.Write(request)
		if err == nil {
			_, err = io.ReadAtLeast(c, buf, len(plainAnswer))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A request on the fast lane allocates nothing, whichever algorithm picks its backend, everything that is counted
// included. What the loops beside it allocate is what the tolerance is for.
func TestTheFastLaneAllocatesNothing(t *testing.T) {
	for _, e := range contenders {
		if e.Engine == EngineNetHTTP {
			continue
		}
		t.Run(string(e.Engine), func(t *testing.T) {
			p := e.over(t, nil, frugal(t), frugal(t))
			c, err := net.Dial("tcp", p.addr)
			require.NoError(t, err)
			defer c.Close()
			ask(t, c, 500)
			const n = 5000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ask(t, c, n)
			runtime.ReadMemStats(&after)
			require.Less(t, float64(after.Mallocs-before.Mallocs)/n, 0.2, "allocations for each request")
		})
	}
}

// BenchmarkFastLane is one request through a whole proxy and back, over loopback, one at a time: nearly all of it is
// the kernel's.
func BenchmarkFastLane(b *testing.B) {
	for _, e := range []Engine{EngineAuto, EngineGoroutines, EngineNetHTTP} {
		b.Run(strings.ReplaceAll(string(e), "/", "-"), func(b *testing.B) {
			p := start(b, func(c *Config) { c.Engine = e }, frugal(b))
			c, err := net.Dial("tcp", p.addr)
			require.NoError(b, err)
			defer c.Close()
			ask(b, c, 100)
			b.ReportAllocs()
			b.ResetTimer()
			ask(b, c, b.N)
		})
	}
}
