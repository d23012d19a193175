package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A body that comes while its request has no connection to a backend yet goes on when there is one, however that was
// come by: all of it may have come meanwhile, and then nothing more tells the proxy of it.
func TestABodyGoesOnWhenItsBackendIsThere(t *testing.T) {
	const large = 300 << 10
	upload := post + "Content-Length: 307200\r\n\r\n" + strings.Repeat("a", large)
	eachEngine(t, func(t *testing.T, e contender) {
		short := func(c *Config) { c.RequestTimeout = 2 * time.Second }
		check(t, "by name", func(t *testing.T) {
			b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))
			_, port, err := net.SplitHostPort(b.addr)
			require.NoError(t, err)
			p := e.over(t, short, &httptest.Server{URL: "http://localhost:" + port})
			c := p.connect()
			for range 5 {
				c.send(upload)
				require.Equal(t, 200, c.answer("POST").status())
			}
		})
		check(t, "in a second try, on a connection that was there", func(t *testing.T) {
			b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
			refusing := listenLocal(t)
			require.NoError(t, refusing.Close())
			p := e.over(t, short, &httptest.Server{URL: "http://" + b.addr}, &httptest.Server{URL: "http://" + refusing.Addr().String()})
			c := p.connect()
			for range 4 {
				c.send(upload)
				require.Equal(t, 200, c.answer("POST").status())
			}
		})
	})
}

// A proxy that is told to end before it has begun ends.
func TestAProxyEndsBeforeItHasBegun(t *testing.T) {
	for _, e := range contenders {
		for range 50 {
			p, err := New(Config{TrafficListener: listenLocal(t), AdminListener: listenLocal(t), Engine: e.Engine,
				Rules: t.TempDir() + "/rules.yml", DrainTimeout: time.Second, Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(longEnough):
				require.Fail(t, "it goes on", e.Engine)
			}
		}
	}
}
