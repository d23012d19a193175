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
	"retune/orchestrator/detection"
	"retune/orchestrator/switchlog"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// cycleServer answers for cycle 7 with a verdict, a switch and a matrix, and for no other cycle.
func cycleServer(t *testing.T) string {
	t.Helper()
	v := verdict.Verdict{Outcome: verdict.Kept, Reason: "kept: p95 fell", Findings: []verdict.Finding{{Scenario: "burst", Metric: verdict.P95, Champion: 612, Candidate: 412, Effect: -0.33}}}
	answers := map[string]any{
		"/api/v1/cycles/7": orchestrator.Cycle{ID: 7, Status: orchestrator.Kept, Why: v.Reason, Verdict: &v},
		"/api/v1/cycles/7/switches": map[string]any{"items": []orchestrator.RunSwitch{{Run: 31, Switch: switchlog.Switch{
			Scenario: "burst", AtS: 18, State: traffic.Spike, From: balance.RoundRobin, To: balance.LeastConnections,
			Outcome: switchlog.Paid, Why: "p95 1400 → 980 ms (-30%), beyond the ±10%",
		}}}},
		"/api/v1/cycles/7/detection": detection.Summary{
			Champion:   detection.Counts{Matrix: detection.Matrix{traffic.Spike: {traffic.Spike: 3, traffic.HighStable: 1}}, Windows: 4, Agreed: 3, Across: 2},
			Classified: detection.Counts{Matrix: detection.Matrix{traffic.Spike: {traffic.Spike: 4}}, Windows: 4, Agreed: 4}, Classifier: "local",
			Suggestions: []detection.Suggestion{{Path: "detection.spike_rate", Now: "1", Better: "0.5", Why: "rps change rate at least 0.62"}},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			a = map[string]any{"title": "Not Found", "detail": "cycle 8: not found"}
		}
		_ = json.NewEncoder(w).Encode(a)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestACycleIsShownWithItsSwitchesAndItsDetection(t *testing.T) {
	server := cycleServer(t)
	show := func(args ...string) string {
		var out, errs bytes.Buffer
		err := run(t.Context(), append([]string{"cycle", "show", "7", "--server", server}, args...), &out, &errs)
		require.NoError(t, err, errs.String())
		return out.String()
	}
	said := show()
	for _, want := range []string{
		"Cycle 7, kept: p95 fell", "612.0 ms", "ROUND_ROBIN → LEAST_CONNECTIONS", "paid", "p95 1400 → 980 ms",
		"3 of 4 windows named as they truly were (2 more lie across two states)", "named HIGH_STABLE",
		"The classifier (local), afterwards: 4 of 4", "spike_rate 1 → 0.5: rps change rate at least 0.62",
	} {
		require.Contains(t, said, want)
	}
	require.Contains(t, show("-o", "markdown"), "| 31 | burst | 18 s | SPIKE | ROUND_ROBIN → LEAST_CONNECTIONS | paid |")
	require.Equal(t, 2, strings.Count(show("-o", "csv"), "\n"), "the switches alone")
	var whole shownCycle
	require.NoError(t, json.Unmarshal([]byte(show("-o", "json")), &whole))
	require.Equal(t, []any{int64(7), 1, 3, switchlog.Paid}, []any{whole.ID, len(whole.Switches), whole.Detection.Champion.Agreed, whole.Switches[0].Outcome})

	var out, errs bytes.Buffer
	require.ErrorContains(t, run(t.Context(), []string{"cycle", "show", "8", "--server", server}, &out, &errs), "cycle 8: not found")
	require.Empty(t, out.String())
}
