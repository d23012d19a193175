package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/loadtest/k6test"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/steering"
)

// The command passes limits on as they were typed, and turns what comes back into its exit code.
func TestJudgingACycleAgainHasTheCyclesExitCodes(t *testing.T) {
	inFolder(t, nil)
	stored := verdict.Verdict{Outcome: verdict.RolledBack, Reason: "rolled back: p95", Limits: verdict.DefaultLimits(), Pairs: 2, Look: 1}
	for outcome, want := range map[verdict.Outcome]int{
		verdict.Kept: exitOK, verdict.RolledBack: exitRolledBack, verdict.Inconclusive: exitInconclusive, verdict.Undecided: exitInconclusive,
	} {
		var asked string
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.String()
			limits := verdict.Limits{P95Increase: 0.1, RPSDecrease: 0.15, ErrorIncrease: 0.01}
			_ = json.NewEncoder(w).Encode(orchestrator.Rejudgement{
				Cycle: 3, Status: orchestrator.RolledBack, Stored: &stored, Own: stored, Confirmed: true, Looks: []int{2, 3, 4}, Pairs: 3,
				Verdict: verdict.Verdict{Outcome: outcome, Reason: "as the test has it", Limits: limits, Pairs: 2, Look: 1,
					Findings: []verdict.Finding{{Scenario: "burst", Metric: verdict.P95, Champion: 100, Candidate: 112, Effect: 0.12, Low: 0.1, High: 0.14, Limit: 0.1, Pairs: 2, Outcome: outcome}}},
			})
		}))
		var out, errs bytes.Buffer
		err := run(t.Context(), []string{"cycle", "judge", "3", "--p95", "10%", "--errors", "1", "--server", api.URL}, &out, &errs)
		api.Close()
		require.Equal(t, want, exitCode(err, false), "%s: %s", outcome, errs.String())
		require.Equal(t, "GET /api/v1/cycles/3/judge?errors=1&p95=10%25", asked)
		require.Contains(t, out.String(), "burst")
		require.Contains(t, errs.String(), "Cycle 3 under p95 +10%, RPS −15%, errors +1 point: "+words(outcome)+", at look 1 of 3, after")
		require.Contains(t, errs.String(), "It ended rolled back, under p95 +15%, RPS −15%, errors +2 points, after 2 pairs. Nothing of that was changed; under the cycle's own limits the stored verdict comes out again")
		require.Contains(t, errs.String(), "No noise was known before")
	}
}

func TestLimitsAreCheckedBeforeAnythingIsAskedOrStarted(t *testing.T) {
	inFolder(t, nil)
	for _, args := range [][]string{
		{"cycle", "judge", "3", "--p95", "10"}, {"cycle", "--p95", "10"}, {"cycle", "--up", "--errors", "0.02"}, {"cycle", "run", "--rps", "100%"},
	} {
		var errs bytes.Buffer
		err := run(t.Context(), append(args, "--server", "http://127.0.0.1:1"), &errs, &errs)
		require.Equal(t, exitUsage, exitCode(err, false), "%v: %s", args, errs.String())
		require.Regexp(t, "limit (p95|errors)|limit rps_decrease", errs.String(), "%v", args)
	}
}

// Limits that are not given are the server's, whatever they are; what the cycle can tell is said before the load.
func TestACycleStartsWithItsLimitsAndSaysWhatItCanTell(t *testing.T) {
	inFolder(t, nil)
	var sent orchestrator.Request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v1/status":
			fmt.Fprint(w, `{"choices":{"limits":{"p95_increase":0.3,"rps_decrease":0.2,"error_increase":0.05}}}`)
		case "POST /api/v1/cycles":
			_ = json.NewDecoder(r.Body).Decode(&sent)
			fmt.Fprint(w, `{"id":5,"status":"queued","outlook":{"says":"Quick can't be expected to decide here."}}`)
		case "GET /api/v1/cycles/5/noise":
			fmt.Fprint(w, `{"says":"The noise of this machine was known from 12 pairs."}`)
		default:
			fmt.Fprint(w, `{"id":5,"status":"kept","candidate":8,"why":"kept: fine","verdict":{"outcome":"kept","reason":"kept: fine","findings":[{"scenario":"burst","metric":"p95","limit":0.125}]}}`)
		}
	}))
	defer api.Close()
	var out, errs bytes.Buffer
	err := run(t.Context(), []string{"cycle", "--p95", "12.5%", "--server", api.URL}, &out, &errs)
	require.NoError(t, err)
	require.Equal(t, verdict.Limits{P95Increase: 0.125, RPSDecrease: 0.2, ErrorIncrease: 0.05}, sent.Limits)
	require.Regexp(t, `(?s)can't be expected to decide here.*Cycle 5 is queued.*The noise of this machine was known from 12 pairs`, errs.String())
	require.Contains(t, out.String(), "+12.5%")
}

func TestBackendsAreNamedWithoutWhatComesAndGoes(t *testing.T) {
	one := steering.BackendStatus{ID: "b", URL: "http://ada:secret@10.0.0.1:80", Weight: 2, Health: "healthy", InFlight: 7}
	other := steering.BackendStatus{ID: "a", URL: "http://10.0.0.2:80", Weight: 1, Health: "ejected"}
	require.Equal(t, "a=10.0.0.2:80×1 b=10.0.0.1:80×2", backendWords([]steering.BackendStatus{one, other}))
}

// From start to end over real processes: limits, outlook, verdict, and the verdict again from what Postgres holds.
func TestAStoredCycleIsJudgedAgain(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.ExpectedCompletion))
		w.startAll()
		var out, errs bytes.Buffer
		server := []string{"--server", "http://" + w.web}
		judge := func(limits ...string) (orchestrator.Rejudgement, int) {
			t.Helper()
			out.Reset()
			errs.Reset()
			err := run(t.Context(), append(append([]string{"cycle", "judge", "1", "-o", "json"}, limits...), server...), &out, &errs)
			var r orchestrator.Rejudgement
			if out.Len() > 0 {
				require.NoError(t, json.Unmarshal(out.Bytes(), &r), out.String())
			}
			return r, exitCode(err, false)
		}
		id := w.propose(everywhere(balance.RoundRobin), false, "short")
		_, code := judge()
		require.Equal(t, exitUsage, code, "it has not ended: %s", errs.String())
		c := w.judged(id)
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		require.NotEmpty(t, c.Setup.Driver)
		require.Contains(t, c.Setup.Backends, "server-1=")
		require.NotEmpty(t, c.Setup.Proxy, "its build")

		r, code := judge()
		require.Equal(t, exitRolledBack, code, errs.String())
		require.True(t, r.Confirmed, r.Origin())
		require.Equal(t, *c.Verdict, r.Verdict)
		r, code = judge("--p95", "5000%", "--rps", "99%", "--errors", "99")
		require.Equal(t, exitOK, code, "%s: %s", r.Verdict.Reason, errs.String())
		require.Equal(t, c, w.cycle(id), "nothing that is stored changes")

		out.Reset()
		errs.Reset()
		require.NoError(t, run(t.Context(), append([]string{"doctor", "-o", "json", "--proxy-admin", "http://" + w.admin, "--data", w.path("")}, server...), &out, &errs), errs.String())
		require.Contains(t, out.String(), `"check": "noise"`)
	})
}

func TestTheStateOfTheNoiseIsShown(t *testing.T) {
	now := time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)
	k := noiseItem{KnownNoise: orchestrator.KnownNoise{Profile: "quick", Driver: "builtin", Updated: now.Add(-200 * time.Hour),
		Known: []verdict.Noise{{Scenario: "burst", Metric: verdict.P95, SD: 0.0312, Pairs: 9}}}, Stale: []string{"its newest pair is 8 days old"}, Says: "It is stale."}
	require.Equal(t, "Driver builtin: It is stale.\nMeasuring it anew.", noiseState([]noiseItem{k}, "quick"))
	require.Contains(t, noiseState([]noiseItem{k}, "nightly"), "not known yet")
	var out bytes.Buffer
	c := doctorCmd{tableFlags: tableFlags{Output: "csv"}}
	require.NoError(t, c.printNoise(&output{&out, &out}, []noiseItem{k}, now))
	require.Contains(t, out.String(), "quick,builtin,burst,p95,3.12%,9,8 days,stale")
}

// Pages that say what a cycle can tell are looked at while a run is measured: k6 is not run for each.
func TestADriverIsRememberedForAWhile(t *testing.T) {
	dir := t.TempDir()
	k6, asked := filepath.Join(dir, "k6"), filepath.Join(dir, "asked")
	k6test.Script(t, k6, "#!/bin/sh\necho x >> "+asked+"\necho k6 v1.2.3\n")
	m := &driverMemory{driverFinder: driverFinder{loadtest.Config{K6: k6}}}
	for range 3 {
		_, d, err := m.find(loadtest.Auto)
		require.NoError(t, err)
		require.Equal(t, loadtest.K6, d)
	}
	times, err := os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(times))
	f := m.found[loadtest.Auto]
	f.until = time.Now().Add(-time.Second)
	m.found[loadtest.Auto] = f
	_, _, err = m.find(loadtest.Auto)
	require.NoError(t, err)
	times, err = os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, "x\nx\n", string(times), "the while is over")
}
