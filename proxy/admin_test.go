package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// wantProblem makes a call that has to be refused with a problem document, and returns its detail.
func (r *running) wantProblem(status int, method, path, body string, headers ...string) string {
	r.t.Helper()
	res, text := r.call(method, path, body, headers...)
	require.Equal(r.t, status, res.StatusCode, text)
	require.Equal(r.t, "application/problem+json", res.Header.Get("Content-Type"))
	var p problemDocument
	require.NoError(r.t, json.Unmarshal([]byte(text), &p), text)
	require.Equal(r.t, status, p.Status)
	require.NotEmpty(r.t, p.Title)
	require.NotEmpty(r.t, p.Detail)
	return p.Detail
}

func TestAdminErrorsAreProblemDocuments(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	for _, c := range []struct {
		status             int
		method, path, body string
		says               string
	}{
		{404, "GET", "/", "", "there is no /"},
		{404, "GET", "/alb/nothing", "", "/alb/nothing"},
		{404, "GET", "/alb/backends/nobody", "", "no such backend"},
		{404, "DELETE", "/alb/backends/nobody", "", "no such backend"},
		{405, "GET", "/alb/rules/reload", "", "POST"},
		{405, "DELETE", "/alb/mode", "", "PUT"},
		{405, "POST", "/metrics", "", "GET"},
		{400, "PUT", "/alb/mode", "", "EOF"},
		{400, "PUT", "/alb/mode", "[]", "array"},
		{400, "PUT", "/alb/mode", `{"mode":"fixed","algorithm":"RANDOM","x":1}`, "unknown field"},
		{400, "PUT", "/alb/mode", `{"mode":"adaptive"} {}`, "more than one"},
		{413, "PUT", "/alb/mode", `{"mode":"` + strings.Repeat("a", adminBodies) + `"}`, "larger"},
		{422, "PUT", "/alb/mode", `{"mode":"sometimes"}`, ""},
		{422, "PUT", "/alb/mode", `{"mode":"fixed","algorithm":"BEST"}`, ""},
		{422, "PUT", "/alb/mode", `{"mode":"adaptive","time_scale":1e-9}`, "below"},
		{400, "GET", "/alb/decisions?since=yesterday", "", "RFC 3339"},
		{400, "GET", "/alb/snapshots?limit=-1", "", "limit"},
		{422, "PUT", "/alb/backends/new", `{}`, "URL"},
		{422, "PUT", "/alb/backends/new", `{"url":"ftp://x"}`, "URL"},
		{422, "PUT", "/alb/backends/new", `{"url":"http://x/path"}`, "path"},
		{422, "PUT", "/alb/backends/a", `{"weight":0}`, "weight 0"},
		{409, "PUT", "/alb/backends/a", `{"url":"http://elsewhere:1"}`, "can't change"},
	} {
		require.Contains(t, p.wantProblem(c.status, c.method, c.path, c.body), c.says, "%s %s %.60s", c.method, c.path, c.body)
	}
	res, _ := p.call("PATCH", "/alb/backends/a", "")
	require.Equal(t, "DELETE, GET, HEAD, PUT", res.Header.Get("Allow"))
}

func TestAdminTokenIsNeededForAllButTheProbes(t *testing.T) {
	p := start(t, func(c *Config) { c.AdminToken = "s3cret" }, backend(t, says("a")))
	for _, path := range []string{"/alb/status", "/metrics", "/alb/rules", "/debug/pprof/", "/nothing"} {
		for _, sent := range []string{"", "Bearer", "Bearer s3cre", "Bearer s3cretx", "Basic s3cret", "s3cret"} {
			detail := p.wantProblem(http.StatusUnauthorized, "GET", path, "", "Authorization: "+sent)
			require.NotContains(t, detail, "s3cret")
		}
	}
	p.wantProblem(http.StatusUnauthorized, "POST", "/alb/rules/reload", "")
	p.must(200, nil, "GET", "/healthz", "")
	p.must(200, nil, "GET", "/readyz", "")
	p.must(200, nil, "GET", "/alb/status", "", "Authorization: Bearer s3cret")
}

func TestAnAdminAddressForEverybodyNeedsAToken(t *testing.T) {
	for _, address := range []string{"0.0.0.0:9901", ":9901", "[::]:9901", "192.0.2.1:9901", "proxy:9901"} {
		_, err := New(Config{Admin: address, Rules: t.TempDir() + "/r.yml"})
		require.ErrorContains(t, err, "RETUNE_ADMIN_TOKEN", address)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		require.NoError(t, Config{Admin: address, Rules: "r.yml"}.check())
	}
}

// A page that the user's browser has open can neither change the proxy nor read it through a name of its own.
func TestPagesOfOthersAreKeptOut(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	p.wantProblem(http.StatusForbidden, "PUT", "/alb/mode", `{"mode":"adaptive"}`, "Sec-Fetch-Site: cross-site")
	p.wantProblem(http.StatusForbidden, "POST", "/alb/rules/reload", "", "Origin: http://evil.example")
	for host, status := range map[string]int{
		"evil.example": 421, "localhost.evil.example:9901": 421, "localhost:9901": 200, "LOCALHOST": 200, "127.0.0.1:1": 200, "[::1]:9901": 200,
	} {
		req, _ := http.NewRequest("GET", p.admin+"/alb/status", nil)
		req.Host = host
		res, err := p.client.Do(req)
		require.NoError(t, err)
		read(t, res)
		require.Equal(t, status, res.StatusCode, host)
	}
}

func TestStatusTellsWhatHolds(t *testing.T) {
	p := start(t, nil, backend(t, says("a")), backend(t, says("b")))
	for range 4 {
		p.get("/")
	}
	var s steering.Status
	p.must(200, &s, "GET", "/alb/status", "")
	require.Equal(t, "adaptive", s.Mode.Mode)
	require.Equal(t, balance.RoundRobin, s.Algorithm)
	require.Equal(t, traffic.LowTraffic, s.State)
	require.Equal(t, 1, s.Rules.Version)
	require.Len(t, s.Rules.Hash, 64)
	require.False(t, s.Rules.Safe)
	require.NotEmpty(t, s.BootID)
	require.Positive(t, s.UptimeS)
	require.Len(t, s.Backends, 2)
	for i, b := range s.Backends {
		require.Equal(t, string(rune('a'+i)), b.ID)
		require.Equal(t, "healthy", b.Health)
		require.EqualValues(t, 2, b.Requests)
		require.Positive(t, b.AvgLatencyMS)
	}
}

func TestModeIsFixedAndFreedAgain(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	var m steering.Mode
	p.must(200, &m, "PUT", "/alb/mode", `{"mode":"fixed","algorithm":"CONSISTENT_HASH","reset":true,"time_scale":0.2}`)
	require.Equal(t, balance.ConsistentHash, m.Algorithm)
	require.Equal(t, balance.ConsistentHash, p.pool.route.Load().algorithm)
	require.Equal(t, 2*time.Second, p.control.length())
	p.must(200, &m, "PUT", "/alb/mode", `{"mode":"adaptive","time_scale":1}`)
	require.Equal(t, balance.RoundRobin, p.pool.route.Load().algorithm)
	require.Equal(t, 10*time.Second, p.control.length())
	var d page[steering.Decision]
	p.must(200, &d, "GET", "/alb/decisions", "")
	require.NotEmpty(t, d.Items)
	last := d.Items[len(d.Items)-1]
	require.Equal(t, steering.CauseMode, last.Cause)
	require.True(t, last.Switched)
}

// The loop evaluates each window; the journals hold the outcome, readable by cursor and by instant.
func TestWindowsAreEvaluatedAndKept(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	stop := make(chan struct{})
	_, failed, wait := p.clients(2, stop)
	p.must(200, nil, "PUT", "/alb/mode", `{"mode":"adaptive","reset":true,"time_scale":0.02}`) // windows of 0.2 s
	var s page[traffic.Snapshot]
	soon(t, "three snapshots", func() bool {
		p.must(200, &s, "GET", "/alb/snapshots", "")
		return len(s.Items) >= 3
	})
	close(stop)
	wait()
	require.Zero(t, failed.Load())
	require.Positive(t, s.Items[1].RPS)
	require.Positive(t, s.Items[1].P95MS)
	require.Equal(t, 200*time.Millisecond, s.Items[1].Window)
	require.Len(t, s.Items[1].Backends, 1)
	require.Equal(t, s.Items[0].Seq+1, s.Items[1].Seq)

	var d, more page[steering.Decision]
	p.must(200, &d, "GET", "/alb/decisions?limit=2", "")
	require.Len(t, d.Items, 2)
	p.must(200, &more, "GET", "/alb/decisions?since="+d.Next, "")
	require.Equal(t, d.Items[1].Seq+1, more.Items[0].Seq)
	p.must(200, &more, "GET", "/alb/decisions?since="+url.QueryEscape(d.Items[0].At.Format(time.RFC3339Nano)), "")
	require.Equal(t, d.Items[1].Seq, more.Items[0].Seq, "entries after the instant")
	p.must(200, &more, "GET", "/alb/decisions?since=2999-01-01T00:00:00Z", "")
	require.Empty(t, more.Items)
	res, text := p.call("GET", "/alb/decisions?since=2999-01-01T00:00:00Z", "")
	require.Contains(t, text, `"items":[]`)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
}

// Backends come, change and go under load, and no request is lost.
func TestBackendsChangeLiveWithoutALostRequest(t *testing.T) {
	extra := backend(t, says("extra"))
	p := start(t, nil, backend(t, says("a")), backend(t, says("b")))
	stop := make(chan struct{})
	done, failed, wait := p.clients(4, stop)
	var b steering.BackendStatus
	for range 20 {
		p.must(201, &b, "PUT", "/alb/backends/extra", fmt.Sprintf(`{"url":%q}`, extra.URL))
		require.Equal(t, 1, b.Weight)
		require.Equal(t, "slow_start", b.Health)
		p.must(200, &b, "PUT", "/alb/backends/extra", `{"weight":5}`)
		require.Equal(t, 5, b.Weight)
		p.must(200, &b, "PUT", "/alb/backends/a", `{"drain":true}`)
		require.Equal(t, "draining", b.Health)
		before := done.Load()
		soon(t, "load", func() bool { return done.Load() > before+20 })
		p.must(200, &b, "PUT", "/alb/backends/a", `{"drain":false}`)
		p.must(204, nil, "DELETE", "/alb/backends/extra", "")
	}
	close(stop)
	wait()
	require.Zero(t, failed.Load(), "of %d", done.Load())
	var list struct{ Items []steering.BackendStatus }
	p.must(200, &list, "GET", "/alb/backends", "")
	require.Len(t, list.Items, 2)
	soon(t, "nothing in flight", func() bool { return p.pool.inFlight() == 0 })
}

func TestReadyNeedsAHealthyBackend(t *testing.T) {
	var sick atomic.Bool
	s := backend(t, says("a"))
	healthy := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() {
			w.WriteHeader(500)
			return
		}
		healthy.ServeHTTP(w, r)
	})
	p := start(t, func(c *Config) { c.Health.Interval = 10 * time.Millisecond }, s)
	p.must(200, nil, "GET", "/readyz", "")
	sick.Store(true)
	soon(t, "not ready", func() bool {
		res, _ := p.call("GET", "/readyz", "")
		return res.StatusCode == http.StatusServiceUnavailable
	})
	require.Contains(t, p.wantProblem(503, "GET", "/readyz", ""), "healthy")
	p.must(200, nil, "GET", "/healthz", "")
	var st steering.Status
	p.must(200, &st, "GET", "/alb/status", "")
	require.Equal(t, "unhealthy", st.Backends[0].Health)
	require.Contains(t, st.Backends[0].Why, "500")
}
