package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a proxy on real sockets, which ends with its test.
type running struct {
	*Proxy
	t      testing.TB
	url    string // of its traffic
	admin  string // of its admin API
	addr   string // of its traffic, for raw sockets
	client *http.Client
	stop   func() error // drains it and waits for Run's error; once
}

// start runs a proxy over servers named a, b, c, … of weight 1. change may alter its configuration.
func start(t testing.TB, change func(*Config), servers ...*httptest.Server) *running {
	t.Helper()
	traffic, admin := listenLocal(t), listenLocal(t)
	c := Config{
		TrafficListener: traffic, AdminListener: admin,
		Rules:    filepath.Join(t.TempDir(), "decision-rules.yml"),
		Trusted:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Backends: configs(t, servers...),
		Log:      slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	r := &running{
		Proxy: p, t: t, url: "http://" + traffic.Addr().String(), addr: traffic.Addr().String(),
		admin: "http://" + admin.Addr().String(), client: &http.Client{Transport: transport, Timeout: 30 * time.Second},
	}
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		transport.CloseIdleConnections()
		return <-ended
	}
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func listenLocal(t testing.TB) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

func configs(t testing.TB, servers ...*httptest.Server) (list []BackendConfig) {
	for i, s := range servers {
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		list = append(list, BackendConfig{ID: string(rune('a' + i)), URL: u, Weight: 1})
	}
	return list
}

// backend is a real server. Its health check always passes; h serves the rest.
func backend(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// says answers every request with its name.
func says(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, name)
	}
}

// get asks the proxy, and returns the answer with its body read.
func (r *running) get(path string) (*http.Response, string) {
	r.t.Helper()
	res, err := r.client.Get(r.url + path)
	require.NoError(r.t, err)
	return res, read(r.t, res)
}

func read(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

// call makes an admin call. headers are "Name: value".
func (r *running) call(method, path, body string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.admin+path, strings.NewReader(body))
	require.NoError(r.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := r.client.Do(req)
	require.NoError(r.t, err)
	return res, read(r.t, res)
}

// must makes an admin call that has to answer with status, and decodes its JSON into v, which may be nil.
func (r *running) must(status int, v any, method, path, body string, headers ...string) {
	r.t.Helper()
	res, text := r.call(method, path, body, headers...)
	require.Equal(r.t, status, res.StatusCode, text)
	if v != nil {
		require.NoError(r.t, json.Unmarshal([]byte(text), v), text)
	}
}

// raw sends bytes on a connection of their own and returns all that comes back until the proxy closes it.
func (r *running) raw(request string) string {
	r.t.Helper()
	c := r.dial()
	defer c.Close()
	_, err := io.WriteString(c, request)
	require.NoError(r.t, err)
	b, err := io.ReadAll(c)
	require.NoError(r.t, err, "%q", b)
	return string(b)
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	require.NoError(r.t, err)
	require.NoError(r.t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// soon waits for something that has to come true, without a bound on how fast this machine is.
func soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 2*time.Millisecond, what)
}
