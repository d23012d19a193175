package proxy

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// unattended is a goroutine engine over backends that serves only the clients which a test brings.
func unattended(t *testing.T, backends ...string) *goroutines {
	var servers []*httptest.Server
	for _, b := range backends {
		servers = append(servers, &httptest.Server{URL: "http://" + b})
	}
	p, err := New(Config{
		Rules: filepath.Join(t.TempDir(), "decision-rules.yml"), Backends: configs(t, servers...), RequestTimeout: time.Hour,
		Engine: EngineGoroutines, Log: slog.New(slog.DiscardHandler), Admin: "127.0.0.1:0",
	})
	require.NoError(t, err)
	ln := listenLocal(t)
	t.Cleanup(func() { _ = ln.Close() })
	e, _ := p.newEngine(ln)
	t.Cleanup(e.close)
	return e.(*goroutines)
}

// bring is a client's connection, with the engine's end of it.
func bring(t *testing.T) (*rawClient, *net.TCPConn) {
	ln := listenLocal(t)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(longEnough)))
	far, err := ln.Accept()
	require.NoError(t, err)
	return &rawClient{Conn: c, t: t, in: newReader(c)}, far.(*net.TCPConn)
}

// A request that nobody has read yet when the proxy begins to drain is served.
func TestADrainServesTheRequestThatNobodyHasRead(t *testing.T) {
	b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	e := unattended(t, b.addr)
	c, far := bring(t)
	c.send(get)
	e.draining.Store(true)
	e.accepted(far)
	a := c.answer("GET")
	require.Equal(t, "ok", a.body)
	require.Equal(t, "close", a.get("Connection"))
	c.ended()
}

// That a backend is lost may be told right before whoever waits for it sets another deadline, which undoes the wake.
func TestALossIsHeardOfWhateverTheMoment(t *testing.T) {
	e := unattended(t, blackHole(t).Listener.Addr().String())
	_, far := bring(t)
	k := e.tasks.Get().(*task)
	k.client = &client{goroutines: e, stream: newStream(far), now: balance.Now()}
	defer far.Close()
	seat := e.choose.pool.route.Load().pick(0)
	k.begin(seat, k.client.now)
	defer k.end(k.client.now, traffic.Aborted)
	k.since, k.whole, k.idempotent, k.busy = k.client.now, true, true, true
	_, err := k.connect(false)
	require.NoError(t, err)
	e.lose(seat.server)
	heard := make(chan error, 1)
	go func() { heard <- k.hear(true, false) }()
	select {
	case err := <-heard:
		require.ErrorIs(t, err, errLost)
	case <-time.After(longEnough):
		require.Fail(t, "it is overlooked")
	}
	k.busy = false
}
