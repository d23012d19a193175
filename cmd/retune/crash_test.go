package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/balance"
	"retune/ruleversions"
)

// gate stands between the orchestrator and the proxy's admin API, and can hold reloads back.
type gate struct {
	*httptest.Server
	held    chan struct{} // closed when a reload is held back
	release chan struct{}
	once    sync.Once
}

// newGate lets the first reloads pass: those that bring v1 in line.
func newGate(t *testing.T, admin string, hold func(*http.Request) bool) *gate {
	g := &gate{held: make(chan struct{}), release: make(chan struct{})}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: admin})
	g.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if hold(r) {
			g.once.Do(func() { close(g.held) })
			select {
			case <-g.release:
			case <-r.Context().Done():
				return
			}
		}
		through.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() { close(g.release); g.Close() })
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

func TestKill9OfTheOrchestrator(t *testing.T) {
	for _, state := range []orchestrator.Status{orchestrator.Baseline, orchestrator.Generating, orchestrator.Applying, orchestrator.Settling, orchestrator.Verifying} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			w.startBackends()
			w.startProxy()
			var more []string
			versions := 1
			if state == orchestrator.Generating { // a model that never answers
				model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
				t.Cleanup(model.CloseClientConnections)
				more = []string{"--openai-base-url", model.URL}
			}
			var g *gate
			if state == orchestrator.Applying { // a reload that never returns
				g = newGate(t, w.admin, func(r *http.Request) bool {
					return r.Method == http.MethodPost && r.Header.Get("Retune-Trial") == "true"
				})
				w.adminBy = strings.TrimPrefix(g.URL, "http://")
			}
			w.startOrchestrator(more...)
			var id int64
			if state == orchestrator.Generating {
				id = w.ask(map[string]any{"profile": "quick", "driver": "builtin", "generator": "openai", "scenarios": []string{"short"}})
			} else {
				id = w.propose(everywhere(balance.ExpectedCompletion), false, "short")
			}
			w.reaches(id, state, cycleLasts)
			if g != nil {
				<-g.held
			}
			w.kill("orchestrator")
			if g != nil {
				w.adminBy = w.admin
			}

			w.startOrchestrator()
			c := w.ended(id, 10*time.Second)
			require.Equal(t, orchestrator.Interrupted, c.Status)
			w.champion(1)
			if state == orchestrator.Applying || state == orchestrator.Settling || state == orchestrator.Verifying {
				versions = 2
			}
			w.wholeHistory(id, versions)
		})
	}
}

func TestKill9OfTheProxyDuringATrial(t *testing.T) {
	for _, state := range []orchestrator.Status{orchestrator.Baseline, orchestrator.Settling, orchestrator.Verifying} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			w.startAll()
			id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
			w.reaches(id, state, cycleLasts)
			w.underLoad(id) // between two runs a restart would do no harm
			w.kill("proxy")
			w.startProxy() // as its supervisor does
			c := w.ended(id, time.Minute)
			require.Equal(t, orchestrator.Failed, c.Status)
			w.champion(1)
		})
	}
}

func TestKill9OfPostgresDuringATrial(t *testing.T) {
	for _, state := range []orchestrator.Status{orchestrator.Baseline, orchestrator.Settling, orchestrator.Verifying} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			w.startAll()
			id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
			w.reaches(id, state, cycleLasts)
			require.NoError(t, syscall.Kill(w.postmaster(), syscall.SIGKILL))
			c := w.ended(id, time.Minute)
			require.Contains(t, []orchestrator.Status{orchestrator.Failed, orchestrator.Interrupted}, c.Status, c.Why)
			w.champion(1)
			versions := 2
			if state == orchestrator.Baseline {
				versions = 1
			}
			w.wholeHistory(id, versions)
		})
	}
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
	w := newTown(t)
	w.startAll()
	id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
	w.reaches(id, orchestrator.Verifying, cycleLasts)
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
