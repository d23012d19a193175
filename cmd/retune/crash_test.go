package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/balance"
	"retune/ruleversions"
)

// gate stands between the orchestrator and the proxy's admin API, and holds back the first request of a kind.
type gate struct {
	*httptest.Server
	hold *hold
}

func newGate(t *testing.T, admin string, kind func(*http.Request) bool) *gate {
	g := &gate{hold: newHold()}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: admin})
	g.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if kind(r) && !g.hold.stop(r) {
			return
		}
		through.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() { g.hold.release(); g.Close() })
	return g
}

// wholeHistory asserts that cycle and versions are there, once each, and that the next cycle can run.
func (w *town) wholeHistory(id int64, versions int) {
	w.t.Helper()
	var page struct {
		Items []ruleversions.Version `json:"items"`
	}
	w.call(http.MethodGet, "/versions", nil, &page)
	require.Len(w.t, page.Items, versions)
	for i, v := range page.Items {
		require.Equal(w.t, versions-i, v.Number)
	}
	next := w.propose(everywhere(balance.Random), true, "short")
	require.Greater(w.t, next, id, "a new number; Postgres leaves a gap after a crash")
	w.reaches(next, orchestrator.Baseline, 10*time.Second)
	w.call(http.MethodPost, cyclePath(next)+"/cancel", nil, nil)
	w.ended(next, 20*time.Second)
}

// goesTo waits until a cycle has a status; one that can't measure ends the attempt.
func (w *town) goesTo(id int64, want orchestrator.Status) {
	w.t.Helper()
	w.until(fmt.Sprintf("cycle %d is %s", id, want), cycleLasts, func() bool {
		w.running(id)
		return w.cycle(id).Status == want
	})
}

// The guard of the tests below, without a load: the first town's cycle fails for want of evidence.
func TestATestThatCanNotMeasureIsDoneAnew(t *testing.T) {
	towns := 0
	measuring(t, func(w *town) {
		c := orchestrator.Cycle{ID: 1, Status: orchestrator.Verifying}
		if towns++; towns == 1 {
			c.Status, c.Why = orchestrator.Failed, "scenario short gave no evidence twice: 5 of 160 requests were dropped"
		}
		api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(rw).Encode(c) }))
		defer api.Close()
		var err error
		w.api, err = serverFlags{Server: api.URL}.client()
		require.NoError(t, err)
		w.goesTo(1, orchestrator.Verifying)
	})
	require.Equal(t, 2, towns)
}

// A Postgres of the orchestrator's own is started again by it.
func TestKill9OfItsOwnPostgresDuringATrial(t *testing.T) {
	measuring(t, func(w *town) {
		w.startAll()
		id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
		w.goesTo(id, orchestrator.Settling)
		require.NoError(t, syscall.Kill(w.postmaster(), syscall.SIGKILL))
		c := w.ended(id, time.Minute)
		require.Equal(t, orchestrator.Interrupted, c.Status, c.Why)
		require.Equal(t, "the session with Postgres was lost during the trial; v1 was put back in force", c.Why)
		w.champion(1)
		w.wholeHistory(id, 2)
	})
}

// postmaster is the process number of the town's Postgres.
func (w *town) postmaster() int {
	b, err := os.ReadFile(w.path("data", "pg", "postmaster.pid"))
	require.NoError(w.t, err)
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(w.t, err)
	return pid
}

// Everything at once, as when a laptop's battery ends.
func TestKill9OfEverythingDuringATrial(t *testing.T) {
	measuring(t, func(w *town) {
		w.startAll()
		id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
		w.goesTo(id, orchestrator.Verifying)
		pid := w.postmaster()
		for _, name := range []string{"orchestrator", "proxy", "backends"} {
			w.kill(name)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		file, err := os.ReadFile(w.path("decision-rules.yml"))
		require.NoError(t, err)
		require.Contains(t, string(file), "version: 1\n", "the proxy's file never holds rules on trial")
		w.startAll()
		require.Equal(t, orchestrator.Interrupted, w.ended(id, 10*time.Second).Status)
		w.champion(1)
		w.wholeHistory(id, 2)
	})
}

func TestAProxyThatIsDownIsWaitedFor(t *testing.T) {
	w := newTown(t)
	w.startAll()
	w.champion(1)
	w.kill("proxy")
	w.until("readyz says that the proxy is down", 15*time.Second, func() bool {
		res, err := http.Get(fmt.Sprintf("http://%s/readyz", w.web))
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable
	})
	require.NoError(t, os.WriteFile(w.path("decision-rules.yml"), []byte("not rules"), 0o644))
	require.NoError(t, os.Remove(w.path("decision-rules.yml"))) // a lost disk: the proxy starts on its default rules
	w.startProxy()
	w.champion(1)
}
