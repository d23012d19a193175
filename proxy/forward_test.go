package proxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

func TestForwardingHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		trusted bool
		sent    map[string]string
		want    map[string]string
		client  string
	}{
		"nothing sent": {true, nil,
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop"}, "127.0.0.1"},
		"from a trusted peer": {true,
			map[string]string{"X-Forwarded-For": "9.9.9.9, 10.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "front"},
			map[string]string{"X-Forwarded-For": "9.9.9.9, 10.0.0.1, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "front"}, "10.0.0.1"},
		"through two trusted peers": {true, map[string]string{"X-Forwarded-For": "6.6.6.6, 9.9.9.9, 127.0.0.5"},
			map[string]string{"X-Forwarded-For": "6.6.6.6, 9.9.9.9, 127.0.0.5, 127.0.0.1"}, "9.9.9.9"},
		"IPv6 with port": {true, map[string]string{"X-Forwarded-For": "[2001:db8::1]:4711"},
			map[string]string{"X-Forwarded-For": "[2001:db8::1]:4711, 127.0.0.1"}, "2001:db8::1"},
		"no address": {true, map[string]string{"X-Forwarded-For": "9.9.9.9, unknown"},
			map[string]string{"X-Forwarded-For": "9.9.9.9, unknown, 127.0.0.1"}, "127.0.0.1"},
		"from anybody": {false,
			map[string]string{"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "Forwarded": "for=9.9.9.9"},
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop", "Forwarded": ""}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			p := start(t, func(c2 *Config) {
				if !c.trusted {
					c2.Trusted = nil
				}
			}, backend(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
			req, _ := http.NewRequest("GET", p.url, nil)
			req.Host = "shop"
			for k, v := range c.sent {
				req.Header.Set(k, v)
			}
			res, err := p.client.Do(req)
			require.NoError(t, err)
			read(t, res)
			for k, v := range c.want {
				require.Equal(t, v, got.Get(k), k)
			}
			req.RemoteAddr = "127.0.0.1:1"
			require.Equal(t, c.client, originOf(req, p.config.Trusted).client.String())
		})
	}
}

func TestWebSocketPassesAndEndsWithTheProxy(t *testing.T) {
	p := start(t, func(c *Config) { c.DrainTimeout = time.Second }, backend(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if c.Write(r.Context(), kind, append([]byte("echo "), b...)) != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http"), nil)
	require.NoError(t, err)
	defer c.CloseNow()
	for i := range 3 {
		require.NoError(t, c.Write(ctx, websocket.MessageText, fmt.Append(nil, i)))
		_, b, err := c.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("echo ", i), string(b))
	}
	require.EqualValues(t, 1, p.pool.inFlight())
	require.NoError(t, p.stop())
	_, _, err = c.Read(ctx)
	require.Error(t, err)
	soon(t, "the tunnel is counted out", func() bool { return p.pool.inFlight() == 0 })
}

// PA-15: a client that went away is aborted upstream, and counts neither for nor against the backend.
func TestPA15ClientAbortIsNobodysFailure(t *testing.T) {
	asked, aborted := make(chan struct{}), make(chan struct{})
	p := start(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(aborted)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "GET", p.url, nil)
	go func() {
		<-asked
		cancel()
	}()
	_, err := p.client.Do(req)
	require.ErrorIs(t, err, context.Canceled)
	<-aborted
	soon(t, "nothing in flight", func() bool { return p.pool.inFlight() == 0 })
	b := p.pool.status(time.Now())[0]
	require.Zero(t, b.Errors)
	require.Equal(t, "healthy", b.Health)
	require.Zero(t, p.pool.servers[0].failing.Load())
}

func TestErrorsOfTheProxysOwn(t *testing.T) {
	hang := backend(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	silent := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	})
	refusing := httptest.NewServer(nil)
	refusing.Close()
	for name, c := range map[string]struct {
		servers []*httptest.Server
		status  int
	}{
		"no_backend":    {nil, http.StatusServiceUnavailable},
		"timeout":       {[]*httptest.Server{hang}, http.StatusGatewayTimeout},
		"connect":       {[]*httptest.Server{refusing}, http.StatusBadGateway},
		"broken_answer": {[]*httptest.Server{silent}, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, func(c *Config) {
				if name == "timeout" {
					c.RequestTimeout = 100 * time.Millisecond
				}
			}, c.servers...)
			res, body := p.get("/")
			require.Equal(t, c.status, res.StatusCode, body)
			require.Equal(t, name, res.Header.Get("X-Retune-Error"))
			require.Zero(t, p.pool.inFlight())
		})
	}
}

func TestASlowUploadIsNoTimeout(t *testing.T) {
	p := start(t, func(c *Config) { c.RequestTimeout = time.Second }, backend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b))
	}))
	in, out := io.Pipe()
	go func() {
		for range 30 { // longer than the timeout in all, but never without progress for nearly as long
			time.Sleep(50 * time.Millisecond)
			fmt.Fprint(out, "x")
		}
		out.Close()
	}()
	res, err := p.client.Post(p.url, "text/plain", in)
	require.NoError(t, err)
	require.Equal(t, "30", read(t, res))
}

func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	p := start(t, nil, backend(t, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		fmt.Fprint(w, "finished")
	}))
	got := make(chan string, 1)
	go func() {
		res, err := p.client.Get(p.url)
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		got <- string(b)
	}()
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- p.stop() }()
	soon(t, "draining", p.draining.Load)
	res, _ := p.call("GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	soon(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(leave)
	require.Equal(t, "finished", <-got)
	require.NoError(t, <-ended)
}

func TestABusyPortNamesItsFlag(t *testing.T) {
	busy := listenLocal(t)
	defer busy.Close()
	p, err := New(Config{Listen: busy.Addr().String(), Admin: "127.0.0.1:0", Rules: t.TempDir() + "/r.yml", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var le *ListenError
	require.ErrorAs(t, p.Run(context.Background()), &le)
	require.Equal(t, "--listen", le.Flag)
}

// A proxy that is stopped while it starts ends.
func TestAStopDuringTheStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for range 50 {
			require.NoError(t, e.over(t, nil).stop())
		}
	})
}
