package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/demo"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// A step is a moment of a cycle in which something is struck.
type step string

// The steps. Four are moments within a step of the timeline: while the transaction that keeps or rolls back is open, and
// when a kept version is in the ledger but not yet in the proxy's file.
const (
	inQueue     step = "queued"
	inBaseline  step = "baseline"
	generating  step = "generating"
	applying    step = "applying"
	settling    step = "settling"
	verifying   step = "verifying"
	keeping     step = "keeping"
	kept        step = "kept"
	rollingBack step = "rolling-back"
	cancelling  step = "cancelling"
)

// onTrial reports whether the target runs the candidate in this step.
func (s step) onTrial() bool {
	switch s {
	case settling, verifying, keeping, rollingBack, cancelling:
		return true
	}
	return false
}

// moment is a cycle in a step. release lets go what holds it there; calling it again does nothing.
type moment struct {
	step    step
	cycle   int64
	release func()
}

// candidate is better than the champion beyond doubt.
var candidate = everywhere(balance.ExpectedCompletion)

// inTown runs a test in a town whose Postgres, proxy and load can be struck.
func inTown(t *testing.T, test func(w *town)) {
	t.Helper()
	measuring(t, func(w *town) {
		w.startPostgres()
		w.env = append(w.env, "DATABASE_URL="+w.relay.dsn())
		w.firstRules(everywhere(balance.RoundRobin))
		w.startBackends()
		w.startProxy()
		test(w)
	})
}

// measuring runs a test in a town. On a machine that is too busy for runs that are evidence it is done anew in another
// town: what happens to a cycle that can't measure is not what is tested.
func measuring(t *testing.T, test func(w *town)) {
	t.Helper()
	for range 4 {
		w := newTown(t)
		if !tooBusy(func() { test(w) }) {
			return
		}
		t.Log("this machine was too busy to measure; again")
		w.stop()
	}
	t.Fatal("this machine is too busy to measure anything")
}

// errTooBusy ends a test's attempt from within.
var errTooBusy = errors.New("too busy")

func tooBusy(test func()) (busy bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != errTooBusy { //nolint:errorlint // it is what was panicked with, or something else
				panic(p)
			}
			busy = true
		}
	}()
	test()
	return false
}

// measurable ends the attempt when a cycle failed because its runs were no evidence.
func measurable(c orchestrator.Cycle) {
	if c.Status == orchestrator.Failed && strings.Contains(c.Why, "no evidence") {
		panic(errTooBusy)
	}
}

// judged waits for a cycle's end.
func (w *town) judged(id int64) orchestrator.Cycle {
	c := w.ended(id, cycleLasts)
	measurable(c)
	return c
}

// enter brings a cycle into a step and keeps it there.
func (w *town) enter(s step) moment {
	w.t.Helper()
	m := moment{step: s, release: func() {}}
	switch s {
	case generating:
		model := newHeldModel(w)
		w.startOrchestrator("--openai-base-url", model.URL)
		w.exec(fullDisk)
		m.cycle = w.ask(map[string]any{"profile": "quick", "driver": "builtin", "generator": "openai", "scenarios": []string{"short"}})
		m.release = model.hold.release
		w.until("the model is asked", cycleLasts, func() bool {
			w.running(m.cycle)
			return happened(model.hold.reached)
		})
		return m
	case applying:
		m.release = w.throughGate(m, func(r *http.Request) bool { return r.Header.Get("Retune-Trial") == "true" }, &m.cycle)
		return m
	case kept:
		m.release = w.throughGate(m, func(r *http.Request) bool { return r.Header.Get("Retune-Trial") == "" && brings(r, 2) }, &m.cycle)
		return m
	}
	w.startOrchestrator()
	w.exec(fullDisk)
	switch s {
	case inQueue:
		w.heldIn(&m, "cycle_step", "NEW.name = 'baseline'", func() {})
	case inBaseline, settling, verifying:
		scenario := "failing"
		if s == settling {
			scenario = "short" // the background load is taken from one without events
		}
		m.cycle = w.propose(candidate, false, scenario)
		w.underDriver(m.cycle, orchestrator.Status(s))
	case keeping:
		w.heldIn(&m, "activation", "NEW.kind = 'accept'", func() {})
	case rollingBack:
		w.heldIn(&m, "activation", "NEW.kind = 'rollback'", func() {
			w.comesTo(m.cycle, orchestrator.Settling)
			w.control(map[string]any{"error_rate": 0.5})
		})
		w.control(map[string]any{"error_rate": 0})
	case cancelling:
		w.heldIn(&m, "activation", "NEW.kind = 'rollback'", func() {
			w.comesTo(m.cycle, orchestrator.Settling)
			w.call(http.MethodPost, cyclePath(m.cycle)+"/cancel", nil, nil)
		})
	default:
		w.t.Fatalf("no step %q", s)
	}
	return m
}

// heldIn starts a cycle and waits until its transaction that inserts such a row is held.
func (w *town) heldIn(m *moment, table, when string, meanwhile func()) {
	w.t.Helper()
	reached, release := w.holdBack(table, when)
	m.release = release
	m.cycle = w.tryCandidate(m.step)
	meanwhile()
	w.until("the transaction is held", cycleLasts, func() bool {
		w.running(m.cycle)
		return reached()
	})
}

// tryCandidate starts the cycle of a step. Where it is to be kept, it is beyond doubt on a busy machine too.
func (w *town) tryCandidate(s step) int64 {
	w.t.Helper()
	request := map[string]any{"profile": "quick", "driver": "builtin", "generator": "file", "proposal": string(rules.Render(candidate)), "scenarios": []string{"short"}}
	if s == keeping || s == kept {
		request["limits"] = verdict.Limits{P95Increase: 20, RPSDecrease: 0.95, ErrorIncrease: 0.9}
	}
	return w.ask(request)
}

// comesTo waits until a cycle has a status.
func (w *town) comesTo(cycle int64, want orchestrator.Status) {
	w.t.Helper()
	w.until(fmt.Sprintf("cycle %d is %s", cycle, want), cycleLasts, func() bool {
		w.running(cycle)
		return w.count("SELECT count(*) FROM cycle WHERE id = $1 AND status = $2", cycle, want) == 1
	})
}

// running fails the test when a cycle has ended before it came to the step; a kept one may be on its way to the proxy.
func (w *town) running(cycle int64) {
	w.t.Helper()
	var c orchestrator.Cycle
	err := w.api.call(w.t.Context(), http.MethodGet, cyclePath(cycle), nil, &c)
	measurable(c)
	require.False(w.t, err == nil && c.Status.Ended() && c.Status != orchestrator.Kept, "cycle %d is over: %s", cycle, c.Why)
}

// throughGate starts a cycle whose first reload of the proxy of that kind is held; before verifying, those of a start
// pass.
func (w *town) throughGate(m moment, kind func(*http.Request) bool, cycle *int64) (release func()) {
	w.t.Helper()
	var armed atomic.Bool
	g := newGate(w.t, w.admin, func(r *http.Request) bool { return armed.Load() && r.Method == http.MethodPost && kind(r) })
	w.adminBy = strings.TrimPrefix(g.URL, "http://")
	w.startOrchestrator()
	w.exec(fullDisk)
	w.champion(1)
	*cycle = w.tryCandidate(m.step)
	if m.step == kept {
		w.comesTo(*cycle, orchestrator.Verifying)
	}
	armed.Store(true)
	w.until("the proxy is told", cycleLasts, func() bool {
		w.running(*cycle)
		return happened(g.hold.reached)
	})
	return g.hold.release
}

// brings reports whether a reload is of a version.
func brings(r *http.Request, version int) bool {
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return bytes.Contains(b, fmt.Appendf(nil, "version: %d\n", version))
}

// underDriver waits until a load driver runs in a step: in its failing scenario, when a backend is down, and while
// verifying, when the candidate is in force.
func (w *town) underDriver(cycle int64, in orchestrator.Status) {
	w.t.Helper()
	w.comesTo(cycle, in)
	w.until("a load driver runs", cycleLasts, func() bool {
		w.running(cycle)
		if in == orchestrator.Verifying {
			if now, err := w.alb.Serving(w.t.Context()); err != nil || now.Version != 2 {
				return false
			}
		}
		return (in == orchestrator.Settling || w.control(nil)[3].Down) && len(w.loadDrivers()) > 0
	})
}

// control changes every backend, when change says what, and tells how they stand.
func (w *town) control(change map[string]any) (all []demo.Control) {
	w.t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if change != nil {
		method = http.MethodPut
		body, _ = json.Marshal(change)
	}
	for _, b := range w.back {
		req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+b+"/control", bytes.NewReader(body))
		require.NoError(w.t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(w.t, err)
		var c demo.Control
		err = json.NewDecoder(res.Body).Decode(&c)
		res.Body.Close()
		require.NoError(w.t, err)
		all = append(all, c)
	}
	return all
}

func happened(event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	default:
		return false
	}
}

// hold stops the first that arrives until it is released, or has gone.
type hold struct {
	reached chan struct{} // closed when one is stopped
	release func()
	free    chan struct{}
	once    sync.Once
}

func newHold() *hold {
	h := &hold{reached: make(chan struct{}), free: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.free) })
	return h
}

// stop returns false when who asked has gone meanwhile.
func (h *hold) stop(r *http.Request) bool {
	h.once.Do(func() { close(h.reached) })
	select {
	case <-h.free:
		return true
	case <-r.Context().Done():
		return false
	}
}

// heldModel speaks the protocol of OpenAI's API, and takes its time until it is released.
type heldModel struct {
	*httptest.Server
	hold *hold
}

func newHeldModel(w *town) *heldModel {
	m := &heldModel{hold: newHold()}
	m.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then a client that goes away is noticed
		if m.hold.stop(r) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, answerOf(candidate))
		}
	}))
	w.t.Cleanup(func() { m.hold.release(); m.Close() })
	return m
}

// answerOf is a chat completion that proposes rules.
func answerOf(rs rules.RuleSet) string {
	type rule struct {
		State     traffic.State     `json:"state"`
		Algorithm balance.Algorithm `json:"algorithm"`
		Reason    string            `json:"reason"`
		Decay     string            `json:"decay"`
	}
	var all []rule
	for _, s := range traffic.States() {
		all = append(all, rule{s, rs.Rules[s].Algorithm, "the p95 of it is lower", ""})
	}
	said, _ := json.Marshal(map[string]any{"summary": "One algorithm for all.", "rules": all, "thresholds": []string{}})
	text, _ := json.Marshal(string(said))
	return fmt.Sprintf(`{"id":"1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"finish_reason":"stop",
		"message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`, text)
}
