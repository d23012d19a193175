package loadtest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func builtinRunner(t testing.TB) *Runner {
	t.Helper()
	r, err := Choose(t.Context(), Builtin, Config{Scratch: t.TempDir()})
	require.NoError(t, err)
	return r
}

// runEvidence runs the scenario as a cycle would: again when the run is no evidence, which on a busy machine happens.
func runEvidence(t *testing.T, s Scenario, progress func(Progress), before func()) (r Result) {
	t.Helper()
	for range 3 {
		before()
		var err error
		r, err = builtinRunner(t).Run(t.Context(), s, progress)
		require.NoError(t, err)
		if (len(r.Invalid) == 0 || r.FailedThroughout()) && r.Dropped == 0 {
			return r
		}
		t.Log("no evidence:", r.Dropped, "dropped,", r.Invalid)
	}
	require.Empty(t, r.Invalid)
	return r
}

func constant(rate float64, d time.Duration) Shape {
	return Shape{Name: "own", Description: "Constant.", Clients: 50, Phases: []Phase{{Name: "all", Duration: Duration(d), From: rate, To: rate}}}
}

// seen is a target that keeps the requests it got.
type seen struct {
	*httptest.Server
	mu      sync.Mutex
	clients []string
	headers http.Header
}

func newSeen(t *testing.T, answer http.HandlerFunc) *seen {
	s := &seen{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.clients = append(s.clients, r.Header.Get("X-Forwarded-For"))
		s.headers = r.Header.Clone()
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestBuiltinMakesTheShapesLoad(t *testing.T) {
	target := newSeen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/app" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	shape := Shape{Name: "own", Description: "A ramp and a step.", Clients: 50, Path: "/app", Phases: []Phase{
		{Name: "ramp", Duration: Duration(time.Second), From: 50, To: 150}, {Name: "step", Duration: Duration(time.Second), From: 300, To: 300},
	}}
	var last Progress
	s := Scenario{Shape: shape, Target: target.URL + "/", Warm: 500 * time.Millisecond, Seed: 3}
	r := runEvidence(t, s, func(p Progress) { last = p }, func() { target.clients = nil })
	require.EqualValues(t, 400, r.Requests)
	require.EqualValues(t, 400, r.Planned)
	require.EqualValues(t, 200, r.RPS)
	require.Equal(t, Builtin, r.Driver)
	require.Contains(t, r.DriverVersion, "vegeta")
	require.EqualValues(t, 100, r.Series[0].Requests)
	require.EqualValues(t, 300, r.Series[1].Requests)
	require.Equal(t, map[string]int64{"200": 400}, r.Status)
	require.Equal(t, "step", last.Phase)
	require.Equal(t, 2500*time.Millisecond, last.Planned)

	var want []string
	for n := range int64(425) { // 25 of them in the warm-up
		want = append(want, clientAddress(foldSeed(3), n, 50))
	}
	slices.Sort(want)
	slices.Sort(target.clients)
	require.Equal(t, want, target.clients)
	require.Len(t, slices.Compact(want), 50)
	require.Empty(t, target.headers["X-Vegeta-Seq"])
}

func TestAStallShowsInAnOpenLoadAndHidesInAClosedOne(t *testing.T) {
	var stalled atomic.Pointer[time.Time]
	target := newSeen(t, func(http.ResponseWriter, *http.Request) {
		if until := stalled.Load(); until != nil {
			time.Sleep(time.Until(*until))
		}
	})
	run := func(shape Shape) Result {
		return runEvidence(t, Scenario{Shape: shape, Target: target.URL}, nil, func() {
			time.AfterFunc(time.Second, func() {
				until := time.Now().Add(2 * time.Second)
				stalled.Store(&until)
			})
		})
	}
	open := run(constant(100, 4*time.Second))
	require.EqualValues(t, 400, open.Requests)
	require.Zero(t, open.Dropped, "arrivals go on while the target stalls")
	require.Greater(t, open.P95MS, 1000.0)

	stalled.Store(nil)
	closed := run(Shape{Name: "closed", Description: "Closed.", Clients: 5, Closed: &Closed{Users: 5, Think: Duration(10 * time.Millisecond), Duration: Duration(4 * time.Second)}})
	require.Less(t, closed.P95MS, 1000.0)
	require.Greater(t, closed.MaxMS, 1000.0)
}

func TestWhatCanNotBeStartedIsDropped(t *testing.T) {
	release := make(chan struct{})
	target := newSeen(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	s := Scenario{Shape: constant(20, time.Second), Target: target.URL, Timeout: 1500 * time.Millisecond}
	s.Shape.Phases = append(s.Shape.Phases, Phase{Name: "more", Duration: Duration(time.Second), From: 20, To: 20})
	var out strings.Builder
	g := &generator{Scenario: s, target: target.URL, most: 15, out: newPoints(&out, func(error) {})}
	g.openLoop(t.Context(), g.out.begin)
	require.NoError(t, g.out.close())
	_, r := readAll(out.String())
	require.EqualValues(t, 40, r.Requests+r.Dropped)
	require.Greater(t, r.Dropped, int64(4), "the first 15 occupy everything until 1.5 s")
	require.Equal(t, r.Requests, r.Failed)
}

func TestATargetThatAnswersNothingIsMeasuredByItsTimeOuts(t *testing.T) {
	release := make(chan struct{})
	target := newSeen(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	s := Scenario{Shape: constant(200, 2*time.Second), Target: target.URL, Timeout: 500 * time.Millisecond}
	r := runEvidence(t, s, nil, func() {})
	require.EqualValues(t, 400, r.Requests)
	require.EqualValues(t, 400, r.Failed)
	require.Equal(t, r.Requests, r.Status[errorTimeout])
	require.GreaterOrEqual(t, r.P50MS, 499.0, "time-outs count in full")
	require.True(t, r.FailedThroughout())
}

func TestDropsAreCountedWhenTheLimitIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped []time.Duration
		began := time.Now()
		p := &pacer{timeline: newTimeline(constant(10, time.Second).Phases), limit: 2, started: func(at time.Time) { began = at }}
		p.dropped = func(d time.Duration) { dropped = append(dropped, d) }
		hit := func(hits uint64) (at time.Duration) { // what vegeta does
			wait, stop := p.Pace(time.Since(began), hits)
			require.False(t, stop)
			time.Sleep(wait)
			return time.Since(began)
		}
		require.Equal(t, time.Duration(0), hit(0))
		require.Equal(t, 100*time.Millisecond, hit(1))
		time.AfterFunc(350*time.Millisecond, func() { p.end(1) })
		require.Equal(t, 500*time.Millisecond, hit(2), "one ended at 450 ms: what was due before is lost")
		require.Equal(t, []time.Duration{200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond}, dropped)
		due, underWay := p.end(2)
		require.Equal(t, 500*time.Millisecond, due)
		require.EqualValues(t, 1, underWay)
		for hits := uint64(3); hits < 7; hits++ {
			require.Equal(t, time.Duration(hits+3)*100*time.Millisecond, hit(hits))
			p.end(hits)
		}
		_, stop := p.Pace(time.Since(began), 7)
		require.True(t, stop)

		late := &pacer{timeline: p.timeline, limit: 2, started: func(time.Time) {}, dropped: p.dropped}
		dropped = nil
		wait, _ := late.Pace(time.Second/2, 0)
		require.Zero(t, wait)
		require.Equal(t, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, dropped, "a driver that lags drops what it can't start in time")
	})
}

func TestARefusedConnectionIsAnErrorWithoutALatency(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	r, err := builtinRunner(t).Run(t.Context(), Scenario{Shape: constant(200, time.Second), Target: gone.URL}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"1212": r.Failed}, r.Status)
	require.Equal(t, 1.0, r.ErrorRate)
	require.Zero(t, r.P95MS)
	require.Contains(t, strings.Join(r.Invalid, " "), "No request has a latency: there is no p95.")
}

func TestEventsHappenOnTheTimelineAndAreUndone(t *testing.T) {
	var mu sync.Mutex
	var told []string
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			mu.Lock()
			told = append(told, r.Method+" "+r.URL.Path+" "+string(body))
			mu.Unlock()
		}
	}))
	defer control.Close()
	shape := constant(200, time.Second)
	shape.Events = []Event{
		{At: Duration(600 * time.Millisecond), Action: ActionErrorRate, Backend: "b", Value: 0.25},
		{At: Duration(300 * time.Millisecond), Action: ActionFail, Backend: "a"},
		{At: Duration(500 * time.Millisecond), Action: ActionSlowdown, Backend: "b", Value: 3},
	}
	s := Scenario{Shape: shape, Target: control.URL, Controls: map[string]string{"a": control.URL + "/a", "b": control.URL + "/b", "c": control.URL + "/c"}}
	r := runEvidence(t, s, nil, func() { told = nil })
	require.Equal(t, []string{`PUT /a {"down":true}`, `PUT /b {"slowdown":3}`, `PUT /b {"error_rate":0.25}`}, told[2:5])
	for _, revived := range [][]string{told[:2], told[5:7], told[7:]} { // before, by the child, by us
		require.ElementsMatch(t, []string{"PUT /a " + reviveBody, "PUT /b " + reviveBody}, revived)
	}
	var marks []string
	for i, m := range r.Marks {
		marks = append(marks, m.Action+" "+m.Detail)
		require.GreaterOrEqual(t, m.At, []time.Duration{300, 500, 600}[i]*time.Millisecond)
	}
	require.Equal(t, []string{"fail a", "slowdown b 3", "error_rate b 0.25"}, marks)
}

// A load whose timeline takes a while to be laid out begins late; its events are as late.
func TestEventsAndLoadHaveOneBeginning(t *testing.T) {
	s := Scenario{Shape: Shape{Phases: slices.Repeat([]Phase{{Duration: 1}}, 200_000), Events: []Event{{Action: ActionFail, Backend: "a"}}}}
	var out strings.Builder
	g := &generator{Scenario: s, out: newPoints(&out, func(error) {})}
	require.NoError(t, g.run(t.Context()))
	require.NoError(t, g.out.close())
	_, r := readAll(out.String())
	require.Len(t, r.Marks, 1)
	require.GreaterOrEqual(t, r.Marks[0].At, time.Duration(0))
}

func TestAnInterruptedLoadRevivesAndEnds(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		control := newControl(t)
		s := Scenario{Shape: constant(10, time.Minute), Target: control.URL, Controls: map[string]string{"a": control.URL + "/control"}}
		s.Shape.Events = []Event{{Action: ActionFail, Backend: "a"}}
		in, err := json.Marshal(s)
		require.NoError(t, err)
		load := exec.Command(os.Args[0], "load")
		load.Stdin = strings.NewReader(string(in))
		require.NoError(t, load.Start())
		waitFor(t, func() bool { return control.last() == `{"down":true}` })
		require.NoError(t, load.Process.Signal(signal))
		require.Error(t, load.Wait())
		require.Equal(t, 130, load.ProcessState.ExitCode())
		require.Equal(t, reviveBody, control.last())
	}
}

func TestALoadWhoseReaderGoesAwayRevivesAndEnds(t *testing.T) {
	control := newControl(t)
	s := Scenario{Shape: constant(10, time.Minute), Target: control.URL, Controls: map[string]string{"a": control.URL + "/control"}}
	s.Shape.Events = []Event{{Action: ActionFail, Backend: "a"}}
	in, err := json.Marshal(s)
	require.NoError(t, err)
	load := exec.Command(os.Args[0], "load")
	load.Stdin = strings.NewReader(string(in))
	out, err := load.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, load.Start())
	waitFor(t, func() bool { return control.last() == `{"down":true}` })
	require.NoError(t, out.Close())
	require.Error(t, load.Wait())
	require.Equal(t, 1, load.ProcessState.ExitCode())
	require.Equal(t, reviveBody, control.last())
}

func TestACancelledRunSaysWhy(t *testing.T) {
	control := newControl(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := Scenario{Shape: constant(100, time.Minute), Target: control.URL}
	_, err := builtinRunner(t).Run(ctx, s, func(Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestARunWhoseEventsFailIsNoEvidence(t *testing.T) {
	down := false // written by the control endpoint alone, one call at a time
	control := newSeen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/control" {
			if down {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			down = true
		}
	})
	s := Scenario{Shape: constant(200, time.Second), Target: control.URL, Controls: map[string]string{"a": control.URL + "/control"}}
	s.Shape.Phases = append(s.Shape.Phases, Phase{Name: "rest", Duration: Duration(200 * time.Millisecond)})
	s.Shape.Events = []Event{{At: Duration(500 * time.Millisecond), Action: ActionFail, Backend: "a"}, {At: Duration(1200 * time.Millisecond), Action: ActionRevive, Backend: "a"}}
	r, err := builtinRunner(t).Run(t.Context(), s, nil)
	require.NoError(t, err)
	require.Len(t, r.Marks, 2, "an event after the last request happens too")
	for _, m := range r.Marks {
		require.True(t, m.Failed)
		require.Contains(t, r.Invalid, "An event did not happen: "+m.Action+" "+m.Detail+".")
	}
	require.Contains(t, r.Invalid, "After the run, backend a could not be revived: its control endpoint answered 503 Service Unavailable.")
	require.NotContains(t, strings.Join(r.Invalid, " "), "Before the run")
}

func TestAScriptIsForK6Alone(t *testing.T) {
	script, shape := Scenario{Script: "mine.js"}, Scenario{Shape: constant(1, time.Second)}
	require.Equal(t, []bool{true, false, true, true}, []bool{script.Runs(K6), script.Runs(Builtin), shape.Runs(K6), shape.Runs(Builtin)})
}
