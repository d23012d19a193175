package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

func TestACycleWarnsOfItsLoad(t *testing.T) {
	inFolder(t, nil)
	runs := []orchestrator.Run{
		{ID: 1, Scenario: "steady", Arm: orchestrator.ArmBaseline, Result: loadtest.Result{Planned: 1000, Requests: 1000, DriverCPU: 0.2}},
		{ID: 2, Scenario: "burst", Arm: orchestrator.ArmCandidate, Pair: 2, Result: loadtest.Result{Planned: 1000, Requests: 1000, DriverCPU: 0.75}},
		{ID: 3, Scenario: "burst", Arm: orchestrator.ArmScreen, Algorithm: "RANDOM", Result: loadtest.Result{Planned: 1000, Requests: 940, Invalid: []string{"940 of 1000 planned."}}},
	}
	for range 5 {
		runs = append(runs, runs[1])
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var items []runHealth
		for _, r := range runs {
			items = append(items, runHealth{r, r.Result.Health()})
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/runs"):
			_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
		default:
			_ = json.NewEncoder(w).Encode(orchestrator.Cycle{ID: 5, Status: orchestrator.RolledBack, Champion: 1, Why: "worse", Verdict: &verdict.Verdict{Outcome: verdict.RolledBack, Reason: "worse",
				Findings: []verdict.Finding{{Scenario: "sawtooth", HoldOut: true, Metric: verdict.P95, Outcome: verdict.RolledBack}}}})
		}
	}))
	defer api.Close()
	var out, errs bytes.Buffer
	err := run(t.Context(), []string{"cycle", "watch", "5", "--server", api.URL}, &out, &errs)
	require.Equal(t, exitRolledBack, exitCode(err, false), errs.String())
	require.Contains(t, out.String(), "sawtooth (hold-out)")
	for _, want := range []string{
		"Warning: run 2 (burst, candidate, pair 2): near a bound. The driver used 75% of a core; beyond 80% it measures itself. Lower the rates.",
		"Warning: run 3 (burst, screen RANDOM): no evidence. 940 of 1000 planned.",
		"… and 2 warnings more, at " + api.URL + "/cycles/5",
	} {
		require.Contains(t, errs.String(), want)
	}
	require.NotContains(t, errs.String(), "run 1 ")
}
