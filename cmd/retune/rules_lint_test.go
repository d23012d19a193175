package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// waves is a proxy's ring of snapshots whose rate jumps in every window.
func waves(t *testing.T, wrap bool) string {
	t.Helper()
	var all []traffic.Snapshot
	for i := range 12 {
		s := traffic.Snapshot{At: time.Unix(int64(10*i), 0), Window: 10 * time.Second, RPS: []float64{80, 2}[i%2], State: traffic.HighStable}
		if i > 0 {
			rate := s.RPS/all[i-1].RPS - 1
			s.PreviousRPS, s.RPSChangeRate = all[i-1].RPS, &rate
		}
		all = append(all, s)
	}
	var v any = all
	if wrap {
		v = map[string]any{"items": all, "next": 12}
	}
	b, err := json.Marshal(v)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "snapshots.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func lint(t *testing.T, change func(*rules.RuleSet), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	rs := rules.Default()
	if change != nil {
		change(&rs)
	}
	file := filepath.Join(t.TempDir(), "f.yml")
	require.NoError(t, os.WriteFile(file, rules.Render(rs), 0o600))
	var out, errs bytes.Buffer
	err := run(context.Background(), append([]string{"rules", "lint", file}, args...), &out, &errs)
	return exitCode(err, false), out.String(), errs.String()
}

func TestRulesLintOverAFile(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		code, stdout, stderr := lint(t, nil, "--snapshots", waves(t, wrap))
		require.Equal(t, exitOK, code, "warnings are no refusal")
		require.Contains(t, stdout, "rules.OVERLOADED_NODE")
		require.Contains(t, stderr, "in 12 windows")
		require.Contains(t, stderr, "LOW_TRAFFIC")
	}
	nervous := func(r *rules.RuleSet) {
		r.Switching = rules.Switching{MaxSwitchesPerMinute: 60, SustainedWindows: 1, SpikeSustainedWindows: 1}
	}
	code, stdout, _ := lint(t, nervous, "--snapshots", waves(t, true), "-o", "json")
	require.Equal(t, exitUsage, code)
	var got linted
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	refused := rules.Refused(got.Remarks)
	require.Len(t, refused, 2, "no brake, and flapping: all in one go")
	require.Equal(t, 12, got.Replay.Windows)
}

func TestRulesLintOfWhatIsNoSnapshots(t *testing.T) {
	for _, text := range []string{"", "{}", "x", `{"items":3}`} {
		path := filepath.Join(t.TempDir(), "s.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		code, _, stderr := lint(t, nil, "--snapshots", path)
		require.Equal(t, exitUsage, code, text)
		require.Contains(t, stderr, "holds no snapshots", text)
	}
}

func TestRulesLintAsksTheServer(t *testing.T) {
	var asked struct{ YAML string }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/api/v1/lint", r.URL.Path)
		_ = json.NewDecoder(r.Body).Decode(&asked)
		_ = json.NewEncoder(w).Encode(linted{Over: "nothing: the proxy has recorded no snapshot in the last hour", Same: true})
	}))
	defer s.Close()
	code, stdout, stderr := lint(t, nil, "--server", s.URL)
	require.Equal(t, exitOK, code, stderr)
	require.Empty(t, stdout)
	require.Contains(t, asked.YAML, "spike_rate: 1.00")
	require.Contains(t, stderr, "Nothing contradicts itself.")
	require.Contains(t, stderr, "applying these changes nothing")
}

func TestApplyingWhatIsInForceSaysSo(t *testing.T) {
	var asked map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&asked)
		_, _ = w.Write([]byte(`{"version":9,"already_in_force":true}`))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "f.yml")
	require.NoError(t, os.WriteFile(file, rules.Render(rules.Default()), 0o600))
	var out, errs bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"rules", "apply", file, "--reason", "r", "--server", s.URL}, &out, &errs))
	require.Equal(t, "already in force as v9\n", out.String())
	require.Contains(t, errs.String(), "--force")
	require.Equal(t, whoami(), asked["author"])
}

func TestCycleProposals(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/api/v1/cycles/7/proposals", r.URL.Path)
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []orchestrator.Proposal{
			{Number: 1, Author: "gpt-4o", Fate: orchestrator.Refused, Why: "it flaps"},
			{Number: 2, Author: "local", Fate: orchestrator.Chosen, Version: 4, Changes: []string{"SPIKE: A → B"}, Screening: &orchestrator.Screening{Score: -1.1, Noise: 0.3}},
		}})
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"cycle", "proposals", "7", "--server", s.URL}, &out, &errs))
	for _, says := range []string{"it flaps", "v4", "-1.10 ± 0.60", "SPIKE: A → B"} {
		require.Contains(t, out.String(), says)
	}
	require.Contains(t, errs.String(), "the judge never sees them")
	require.False(t, strings.Contains(out.String(), "judge"), "data alone on stdout")
}
