package loadtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/k6"
)

// did is what a script did, as testdata/run.mjs prints it.
type did struct {
	Options struct {
		DiscardResponseBodies bool                  `json:"discardResponseBodies"`
		Scenarios             map[string]k6Scenario `json:"scenarios"`
	} `json:"options"`
	Exports                          []string
	Setup, Teardown, Warm, Main, Act []call
}

type k6Scenario struct {
	Executor, Exec                    string
	Rate, StartRate                   float64
	TimeUnit                          string
	Duration, StartTime, GracefulStop k6Duration
	Stages                            []k6Stage
	PreAllocatedVUs, MaxVUs, VUs      int
	Iterations                        int
	Env                               map[string]string
}

type call struct {
	Method, URL, Body string
	Params            struct {
		Timeout   any
		Redirects *int
		Tags      map[string]string
		Headers   map[string]string
	}
	Gauge string
	Tags  map[string]string
	Sleep float64
}

// stage makes a directory in which Node finds the scripts, the shapes and stand-ins for k6's modules.
func stage(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("the scripts' logic is tested by running them under Node, and there is none:", err)
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, k6.Files))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "node_modules", "k6"), os.DirFS("testdata/k6")))
	run, err := os.ReadFile("testdata/run.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.mjs"), run, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	return dir
}

func runScript(t *testing.T, dir, name string, env map[string]string) (d did) {
	t.Helper()
	vars, err := json.Marshal(env)
	require.NoError(t, err)
	cmd := exec.Command("node", filepath.Join(dir, "run.mjs"), filepath.Join(dir, name+".js"), string(vars))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, json.Unmarshal(out, &d), string(out))
	return d
}

func TestEveryScriptBuildsItsShape(t *testing.T) {
	dir := stage(t)
	for _, shape := range Shapes() {
		for _, p := range []Profile{Quick, Standard, Nightly} {
			t.Run(shape.Name+" "+string(p), func(t *testing.T) {
				d := runScript(t, dir, shape.Name, map[string]string{
					"PROFILE": string(p), "WARM": "2.5s", "TARGET": "http://t:1/", "SEED": "9",
					"CONTROLS": `{"server-1":"http://c/1","server-2":"http://c/missing"}`,
				})
				requireOptions(t, shape.Scaled(p), d)
				requireLoad(t, shape, d)
				requireEvents(t, shape, d)
			})
		}
	}
}

// requireOptions compares the options with the shape, which is scaled already.
func requireOptions(t *testing.T, s Shape, d did) {
	t.Helper()
	const warmed = 2500 * time.Millisecond
	warm, main := d.Options.Scenarios["warm"], d.Options.Scenarios["main"]
	require.True(t, d.Options.DiscardResponseBodies)
	require.Equal(t, []string{"act", "load", "options", "setup", "teardown"}, d.Exports)
	require.Len(t, d.Options.Scenarios, 2+len(s.Events))
	require.EqualValues(t, warmed, main.StartTime)
	require.EqualValues(t, 5*time.Second, main.GracefulStop, "no less than a request's time-out")
	require.Equal(t, "load", main.Exec)
	for i, e := range s.Events {
		one := d.Options.Scenarios["event_"+strconv.Itoa(i)]
		require.EqualValues(t, warmed+time.Duration(e.At), one.StartTime)
		require.Equal(t, "per-vu-iterations act 1 1", fmt.Sprint(one.Executor, " ", one.Exec, " ", one.VUs, one.Iterations))
	}
	if s.Closed != nil {
		for at, c := range map[time.Duration]k6Scenario{time.Duration(s.Closed.Duration): main, warmed: warm} {
			require.Equal(t, "constant-vus", c.Executor)
			require.Equal(t, s.Closed.Users, c.VUs)
			require.EqualValues(t, at, c.Duration)
		}
		return
	}
	require.Equal(t, "ramping-arrival-rate", main.Executor)
	require.Equal(t, "constant-arrival-rate", warm.Executor)
	require.EqualValues(t, warmed, warm.Duration)
	require.Equal(t, s.Phases[0].From, warm.Rate)
	require.Equal(t, int(s.Peak()*5), main.PreAllocatedVUs)
	require.Equal(t, main.PreAllocatedVUs, main.MaxVUs)
	planned := Scenario{Shape: Shape{Name: s.Name}} // the plan as it is read of a script of the user's own
	inspect, err := json.Marshal(map[string]any{"scenarios": map[string]any{"main": map[string]any{
		"executor": main.Executor, "startRate": main.StartRate, "timeUnit": main.TimeUnit, "stages": stagesJSON(main.Stages)}}})
	require.NoError(t, err)
	require.NoError(t, adoptPlan(&planned, inspect))
	require.Equal(t, s.Planned(), planned.Shape.Planned())
	require.Equal(t, s.Duration(), planned.Shape.Duration())
	for at := range s.Duration() / (100 * time.Millisecond) {
		require.InDelta(t, s.Rate(at*100*time.Millisecond), planned.Shape.Rate(at*100*time.Millisecond), 1e-9)
	}
}

func stagesJSON(stages []k6Stage) (all []map[string]any) {
	for _, s := range stages {
		all = append(all, map[string]any{"target": s.Target, "duration": time.Duration(s.Duration).String()})
	}
	return all
}

func requireLoad(t *testing.T, s Shape, d did) {
	t.Helper()
	requests := func(calls []call) (all []call) {
		for _, c := range calls {
			if c.Method == "GET" {
				all = append(all, c)
			}
		}
		return all
	}
	warm, main := requests(d.Warm), requests(d.Main)
	require.Len(t, warm, 2)
	require.Len(t, main, 3)
	var before int64
	if s.Closed == nil {
		before = int64(s.Phases[0].From * 2.5)
	} else {
		require.Equal(t, 0.1, d.Main[2].Sleep)
	}
	for n, c := range append(warm, main...) {
		at := int64(n)
		if n >= len(warm) {
			at = before + int64(n-len(warm))
		}
		require.Equal(t, "http://t:1/", c.URL)
		require.Equal(t, clientAddress(9, at, s.Clients), c.Params.Headers["X-Forwarded-For"], "both drivers draw the same clients")
		require.Equal(t, "app", c.Params.Tags["name"])
		require.EqualValues(t, 5000, c.Params.Timeout)
		require.Zero(t, *c.Params.Redirects)
	}
	require.Equal(t, metricEvent, d.Main[0].Gauge)
	require.Equal(t, map[string]string{"event": eventBegin, "at": "1700000000000"}, d.Main[0].Tags)
}

func requireEvents(t *testing.T, s Shape, d did) {
	t.Helper()
	require.Len(t, d.Act, 2*len(s.Events))
	for i, e := range s.Events {
		put, mark := d.Act[2*i], d.Act[2*i+1]
		require.Equal(t, "PUT", put.Method)
		require.JSONEq(t, e.control(), put.Body)
		require.Equal(t, "admin", put.Params.Tags["name"])
		want := map[string]string{"event": e.Action, "detail": e.detail()}
		if e.Backend == "server-2" {
			want["detail"] += " (control answered 404)"
			want["failed"] = "true"
		}
		require.Equal(t, want, mark.Tags)
	}
	touched := Scenario{Shape: s}.touched()
	require.Len(t, d.Setup, len(touched))
	require.Equal(t, d.Setup, d.Teardown)
	for _, c := range d.Setup {
		require.JSONEq(t, reviveBody, c.Body)
	}
}

func TestAScriptRunsTheShapeItIsGiven(t *testing.T) {
	dir := stage(t)
	shape := constant(10, 1500*time.Millisecond)
	laid := t.TempDir()
	script, err := layOut(Scenario{Shape: shape}, laid)
	require.NoError(t, err)
	require.Equal(t, "steady.js", filepath.Base(script), "a shape of the user's own runs on a bundled script")
	d := runScript(t, dir, "steady", map[string]string{"SHAPE": filepath.Join(laid, shapeFile), "TIMEOUT": "500ms"})
	require.Len(t, d.Options.Scenarios, 1)
	require.Equal(t, []k6Stage{{Target: 10, Duration: k6Duration(1500 * time.Millisecond)}}, d.Options.Scenarios["main"].Stages)
	require.EqualValues(t, 500*time.Millisecond, d.Options.Scenarios["main"].GracefulStop)
}
