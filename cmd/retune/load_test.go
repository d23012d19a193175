package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
)

func TestLoadWritesTheStreamOfAScenario(t *testing.T) {
	target := httptest.NewServer(nil)
	defer target.Close()
	s := loadtest.Scenario{Target: target.URL, Shape: loadtest.Shape{Name: "x", Description: "d", Clients: 1,
		Phases: []loadtest.Phase{{Name: "all", Duration: loadtest.Duration(time.Second), From: 20, To: 20}}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "scenario.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	var stdout, stderr strings.Builder
	require.NoError(t, run(t.Context(), []string{"load", file}, &stdout, &stderr))
	made, dropped := strings.Count(stdout.String(), `{"metric":"http_req_duration"`), strings.Count(stdout.String(), `{"metric":"dropped_iterations"`)
	require.Equal(t, 20, made+dropped)
	require.NotZero(t, made)
	require.Empty(t, stderr.String())
}

func TestLoadRefusesWhatIsNoScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"Colour":"red"}`), 0o600))
	var stdout, stderr strings.Builder
	err := run(t.Context(), []string{"load", file}, &stdout, &stderr)
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, stderr.String(), `unknown field "Colour"`)
}
