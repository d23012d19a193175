package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/steering"
)

// newServer is a server over a store, ready to be asked.
func newServer(t *testing.T, m *memory, change ...func(*Config)) *Server {
	t.Helper()
	c := Config{
		Starter: m, History: m, Schedules: m, Version: "test", Outlooks: storyOutlooks(m),
		Proxy: func(context.Context) (steering.Status, error) { return storyProxy(), nil },
		Choices: Choices{Generators: []Choice{
			{Name: "local", About: "no model"}, {Name: "openai", Missing: "set OPENAI_API_KEY"},
		}},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	return s
}

// ask sends one request as a browser on this machine would.
func ask(t *testing.T, s *Server, method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:8090"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// pages is every page, for the tests that walk over all of them.
var pages = []string{
	"/", "/cycles?status=kept", "/cycles/1", "/cycles/3", "/cycles/2?p95=60%25&rps=0.2&errors=1", "/cycles/4", "/cycles/7", "/cycles/1/decisions", "/cycles/1/detection", "/cycles/7/cancel", "/runs/2",
	"/versions", "/versions/3", "/versions/diff/2..5", "/versions/propose", "/versions/2/activate",
	"/schedules", "/schedules/1/delete", "/about",
}

func TestEveryPageAnswersWithItsTitleAndItsGuards(t *testing.T) {
	s := newServer(t, story())
	for _, path := range append(pages, "/cycles", "/cycles/2", "/cycles/6", "/versions/1") {
		w := ask(t, s, "GET", path, nil)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		require.Contains(t, w.Body.String(), "<title>", path)
		require.Equal(t, contentPolicy, w.Header().Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
	}
}

func TestARunsHealthStandsBesideItsBounds(t *testing.T) {
	s := newServer(t, story())
	page := ask(t, s, "GET", "/runs/3", nil).Body.String() // of gradual
	for _, want := range []string{"Driver&#39;s CPU, ≤ 80%", "74%", "near its bound", "Of plan, ≥ 95%", "99.9%", "Dropped, ≤ 1%", "Lower the rates."} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "hold-out")
	require.Contains(t, ask(t, s, "GET", "/runs/5", nil).Body.String(), "hold-out")

	page = ask(t, s, "GET", "/cycles/4", nil).Body.String() // one run of it is no evidence
	for _, want := range []string{`<span class="bad">92%</span>`, `<span class="warn">74%</span>`, "barely valid", "The driver used 92% of a core"} {
		require.Contains(t, page, want)
	}
	page = ask(t, s, "GET", "/cycles/1", nil).Body.String()
	require.Contains(t, page, "What is held out is judged with the rest")
	require.Contains(t, ask(t, s, "GET", "/versions/diff/1..2.md", nil).Body.String(), "sawtooth (hold-out)")
}

func TestAnEmptyStoreTeaches(t *testing.T) {
	s := newServer(t, newMemory(), func(c *Config) { c.Proxy = nil })
	require.Contains(t, ask(t, s, "GET", "/", nil).Body.String(), "retune cycle --profile quick")
	for _, path := range []string{"/cycles", "/versions", "/versions/propose", "/schedules", "/about"} {
		require.Equal(t, http.StatusOK, ask(t, s, "GET", path, nil).Code, path)
	}
}

func TestUntrustedTextStaysText(t *testing.T) {
	m := story()
	m.versionList[4].YAML += "# " + hostile
	m.cycleList[1].Why = hostile
	s := newServer(t, m)
	for _, path := range append(pages, "/cycles", "/cycles/2", "/cycles/6", "/versions/1", "/versions/4", "/versions/5") {
		page := ask(t, s, "GET", path, nil).Body.String()
		require.NotContains(t, page, "<script>alert", path)
		require.NotContains(t, page, `" onload=`, path)
	}
	require.Contains(t, ask(t, s, "GET", "/cycles/2", nil).Body.String(), "&lt;script&gt;alert(1)")
}

func TestErrorsHaveTheirStatusAndSayWhatToDo(t *testing.T) {
	s := newServer(t, story())
	for _, c := range []struct {
		method, path string
		form         url.Values
		status       int
		says         string
	}{
		{"GET", "/cycles/99", nil, 404, "not found"},
		{"GET", "/cycles/x", nil, 404, "There is nothing at this address."},
		{"GET", "/nowhere", nil, 404, "There is nothing at this address."},
		{"GET", "/versions/diff/abc", nil, 422, "write it as 3..4"},
		{"GET", "/versions/diff/1..99", nil, 404, "v99"},
		{"GET", "/cycles?before=x", nil, 422, "is no number"},
		{"POST", "/cycles", url.Values{"profile": {"quick"}}, 409, "/cycles/7"},
		{"POST", "/cycles", url.Values{"profile": {"huge"}}, 422, "choose one of quick, standard, nightly"},
		{"POST", "/cycles", url.Values{"generator": {"openai"}}, 422, "set OPENAI_API_KEY"},
		{"POST", "/versions/2/activate", url.Values{"reason": {"try"}}, 409, "A cycle is measuring a candidate"},
		{"POST", "/versions/2/activate", url.Values{"reason": {" "}}, 422, "a reason is needed"},
		{"POST", "/schedules", url.Values{"name": {"n"}, "cron": {"61 * * * *"}}, 422, "cron"},
		{"POST", "/schedules", url.Values{"name": {"n"}, "cron": {"0 0 30 2 *"}}, 422, "cron"},
		{"POST", "/schedules", url.Values{"name": {"n"}, "cron": {"0 3 * * *"}, "time_zone": {"Mars/Olympus"}}, 422, "Mars/Olympus"},
		{"POST", "/schedules/9/run", url.Values{}, 404, "not found"},
	} {
		w := ask(t, s, c.method, c.path, c.form)
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.method, c.path, w.Body)
		require.Contains(t, w.Body.String(), c.says, "%s %s", c.method, c.path)
		if c.path != "/schedules" { // which comes back with its form
			require.Contains(t, w.Body.String(), "Back to the overview", c.path)
		}
	}
}

type brokenHistory struct{ *memory }

func (brokenHistory) Cycles(context.Context, int, int64) ([]orchestrator.Cycle, error) {
	return nil, errors.New("dial unix /secret/path: refused")
}

func TestAFailingStoreIsA500WithoutItsInside(t *testing.T) {
	s := newServer(t, story(), func(c *Config) { c.History = brokenHistory{story()} })
	for _, path := range []string{"/", "/api/v1/cycles"} {
		w := ask(t, s, "GET", path, nil)
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.NotContains(t, w.Body.String(), "secret")
		require.Contains(t, w.Body.String(), "Trying again does no harm")
	}
}

type pendingStarter struct{ *memory }

func (pendingStarter) Activate(context.Context, int, string, string) error {
	return fmt.Errorf("v2 is the active version, %w: connection refused", ErrPending)
}

func TestAVersionThatTheProxyDoesNotRunYetIsA503WithItsReason(t *testing.T) {
	s := newServer(t, newMemory(), func(c *Config) { c.Starter = pendingStarter{newMemory()} })
	w := ask(t, s, "POST", "/versions/2/activate", url.Values{"reason": {"back"}})
	api := callAPI(t, s, "POST", "/versions/2/activate", `{"reason":"back"}`, http.StatusServiceUnavailable, nil)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	for _, text := range []string{w.Body.String(), api.Body.String()} {
		require.Contains(t, text, "v2 is the active version, but the proxy does not run it yet: connection refused")
		require.Contains(t, text, "tried again every 5 s")
	}
}

func TestAnotherSitesPageCannotWrite(t *testing.T) {
	m := newMemory()
	s := newServer(t, m)
	for _, path := range []string{"/cycles", "/api/v1/cycles"} {
		require.Equal(t, http.StatusForbidden, ask(t, s, "POST", path, url.Values{}, "Sec-Fetch-Site", "cross-site").Code)
		require.Equal(t, http.StatusForbidden, ask(t, s, "POST", path, url.Values{}, "Origin", "http://evil.example").Code)
	}
	require.Empty(t, m.cycleList, "a refused request changed something")
	w := ask(t, s, "POST", "/cycles", url.Values{}, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/cycles/1", w.Header().Get("Location"))
}

func TestAStrangersNameForThisMachineIsRefused(t *testing.T) {
	for host, status := range map[string]int{
		"127.0.0.1:8090": 200, "localhost": 200, "localhost:1": 200, "[::1]:8090": 200, "evil.example": 421, "127.0.0.1.evil.example:8090": 421, "": 421,
	} {
		r := httptest.NewRequest("GET", "/cycles", nil)
		r.Host = host
		w := httptest.NewRecorder()
		newServer(t, story()).Handler().ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "Host: %q", host)
	}
}

func TestATokenIsAskedOfAllButProbes(t *testing.T) {
	s := newServer(t, story(), func(c *Config) { c.Token = "sesame" })
	w := ask(t, s, "GET", "/", nil)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Contains(t, w.Header().Get("WWW-Authenticate"), "Basic")
	require.Equal(t, http.StatusUnauthorized, ask(t, s, "GET", "/api/v1/cycles", nil, "Authorization", "Bearer wrong").Code)
	require.Equal(t, http.StatusUnauthorized, ask(t, s, "GET", "/metrics", nil).Code)
	require.Equal(t, http.StatusOK, ask(t, s, "GET", "/healthz", nil).Code)
	require.Equal(t, http.StatusOK, ask(t, s, "GET", "/readyz", nil).Code)
	require.Equal(t, http.StatusOK, ask(t, s, "GET", "/api/v1/cycles", nil, "Authorization", "Bearer sesame").Code)
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth("kostas", "sesame")
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
}

func TestAnOpenAddressWithoutATokenIsRefused(t *testing.T) {
	m := newMemory()
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:8090": true, "[::1]:1": true, "0.0.0.0:8090": false, ":8090": false, "10.0.0.1:80": false} {
		_, err := New(Config{Starter: m, History: m, Schedules: m, Addr: addr})
		require.Equal(t, ok, err == nil, "%s: %v", addr, err)
		_, err = New(Config{Starter: m, History: m, Schedules: m, Addr: addr, Token: "t"})
		require.NoError(t, err, addr)
	}
}

func TestReadyzNamesEachCheck(t *testing.T) {
	s := newServer(t, newMemory(), func(c *Config) {
		c.Ready = func(context.Context) map[string]error {
			return map[string]error{"postgres": nil, "proxy": errors.New("connection refused")}
		}
	})
	w := ask(t, s, "GET", "/readyz", nil)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"ready":false,"checks":{"postgres":"ok","proxy":"connection refused"}}`, w.Body.String())
	s.Token = "sesame"
	require.JSONEq(t, `{"ready":false,"checks":{"postgres":"ok","proxy":"failing"}}`, ask(t, s, "GET", "/readyz", nil).Body.String())
	require.Contains(t, ask(t, s, "GET", "/readyz", nil, "Authorization", "Bearer sesame").Body.String(), "connection refused")
}

// serve runs the server on a port of its own until the test ends, and returns its address and a stop that waits.
func serve(t *testing.T, m *memory, change ...func(*Config)) (base string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := newServer(t, m, append(change, func(c *Config) { c.Listener = ln })...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

func TestAStreamFollowsACycleToItsEnd(t *testing.T) {
	for _, path := range []string{"/cycles/7/events", "/api/v1/cycles/7/events"} {
		m := story()
		base, _ := serve(t, m)
		resp, err := http.Get(base + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		events := bufio.NewScanner(resp.Body)
		events.Buffer(nil, 1<<20)
		first := until(t, events, "event: live")
		require.Contains(t, first, "id: 1")
		m.end(7, orchestrator.Kept, "p95 fell.")
		rest := until(t, events, "event: done")
		require.Contains(t, rest, "kept")
		remaining, err := io.ReadAll(resp.Body)
		require.NoError(t, err, "the stream ends by itself after done")
		require.NotContains(t, string(remaining), "event:")
	}
}

// until reads lines up to one, and returns them all.
func until(t *testing.T, lines *bufio.Scanner, want string) string {
	t.Helper()
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if lines.Text() == want {
			return strings.Join(seen, "\n")
		}
	}
	t.Fatalf("no %q in %q", want, seen)
	return ""
}

func TestAnEndedCyclesStreamIsDoneAtOnce(t *testing.T) {
	w := ask(t, newServer(t, story()), "GET", "/cycles/1/events", nil)
	require.Contains(t, w.Body.String(), "event: live")
	require.Contains(t, w.Body.String(), "event: done\ndata: kept")
}

func TestStopEndsTheStreams(t *testing.T) {
	base, stop := serve(t, story())
	resp, err := http.Get(base + "/cycles/7/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	stop()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err, "the stream was cut, not ended")
}

// A mistake in the form costs nobody what they typed.
func TestAWrongScheduleKeepsTheForm(t *testing.T) {
	s := newServer(t, newMemory())
	w := ask(t, s, "POST", "/schedules", url.Values{"name": {"my nights"}, "cron": {"nonsense"}, "time_zone": {"Europe/Athens"}, "missed": {"skip"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	for _, want := range []string{`value="my nights"`, `value="nonsense"`, `value="Europe/Athens"`, `role="alert"`, `value="skip" selected`} {
		require.Contains(t, w.Body.String(), want)
	}
}
