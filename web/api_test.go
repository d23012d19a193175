package web

import (
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

// callAPI sends JSON as a program would, and reads the answer into out when it is given.
func callAPI(t *testing.T, s *Server, method, path, body string, status int, out any) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, apiBase+path, strings.NewReader(body))
	r.Host = "127.0.0.1:8090"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	require.Equal(t, status, w.Code, "%s %s: %s", method, path, w.Body)
	if status >= 400 {
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), "%s %s", method, path)
	}
	if out != nil {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), out), w.Body)
	}
	return w
}

func TestAPIReadsEverything(t *testing.T) {
	s := newServer(t, story())
	for path, says := range map[string]string{
		"/status":                     `"running_cycle":7`,
		"/cycles?limit=2":             `"next":6`,
		"/cycles?status=failed":       `"id":4`,
		"/cycles/1":                   `"outcome":"kept"`,
		"/cycles/7/live":              `"detail":"pair 2 of 4, burst, candidate v6"`,
		"/cycles/1/runs":              `"arm":"candidate"`,
		"/cycles/4/runs":              `{"name":"driver_cpu","value":0.92,"bound":0.8,"state":"beyond","says":"The driver used 92%`,
		"/runs/5":                     `"hold_out":true`,
		"/cycles/1/decisions":         `"switched":true`,
		"/cycles/1/switches":          `"outcome":"paid","why":"p95 1400 → 1008 ms (-28%)`,
		"/cycles/6/switches":          `"items":[]`,
		"/cycles/1/detection":         `"LOW_TRAFFIC":{"HIGH_STABLE":`,
		"/cycles/6/detection":         `"suggestions":[]`,
		"/cycles/3/calls":             `"cost_usd":null`,
		"/cycles/6/calls":             `"items":[]`,
		"/runs/2":                     `"series":[`,
		"/versions":                   `"version":6`,
		"/versions?limit=2":           `"next":5`,
		"/versions/2":                 `"author":"local"`,
		"/versions/2/yaml":            "LEAST_CONNECTIONS",
		"/versions/1/diff/2":          `"to":2`,
		"/versions/1/diff/2/text":     "+  SPIKE:            { algorithm: LEAST_CONNECTIONS",
		"/versions/1/diff/2/markdown": "LEAST_CONNECTIONS",
		"/schedules":                  `"time_zone":"Europe/Athens"`,
		"/schedules/1":                `"next_runs":["`,
		"/noise":                      `"smallest":`,
		"/activations":                `"kind":"accept"`,
	} {
		w := callAPI(t, s, "GET", path, "", http.StatusOK, nil)
		require.Contains(t, w.Body.String(), says, path)
		require.NotContains(t, w.Body.String(), "$schema", path)
	}
}

func TestAPIStartsACycleOnceAtATime(t *testing.T) {
	m := newMemory()
	s := newServer(t, m)
	// The command line sends orchestrator.Request as it is.
	request, err := json.Marshal(orchestrator.Request{
		Kind: orchestrator.Tune, Trigger: "cli", Profile: loadtest.Quick, Generator: "local", Driver: loadtest.Builtin,
		Scenarios: []string{"burst"}, Limits: verdict.Limits{P95Increase: 0.3, RPSDecrease: 0.2, ErrorIncrease: 0.01},
	})
	require.NoError(t, err)
	var cy orchestrator.Cycle
	w := callAPI(t, s, "POST", "/cycles", string(request), http.StatusAccepted, &cy)
	require.Equal(t, "/api/v1/cycles/1", w.Header().Get("Location"))
	require.Equal(t, "cli", cy.Trigger)
	require.Equal(t, []string{"burst"}, cy.Scenarios)
	require.Equal(t, 0.3, m.cycleList[0].Limits.P95Increase)

	var p problem
	w = callAPI(t, s, "POST", "/cycles", `{}`, http.StatusConflict, &p)
	require.Equal(t, int64(1), p.CycleID)
	require.Equal(t, "/api/v1/cycles/1", w.Header().Get("Location"))

	callAPI(t, s, "POST", "/cycles/1/cancel", "", http.StatusAccepted, &cy)
	require.Equal(t, orchestrator.Cancelled, cy.Status)
	cy = orchestrator.Cycle{}
	callAPI(t, s, "POST", "/cycles", `{}`, http.StatusAccepted, &cy)
	require.Equal(t, verdict.DefaultLimits(), cy.Limits)
	require.Equal(t, orchestrator.Request{
		Kind: orchestrator.Tune, Trigger: "api", Target: "default", Profile: loadtest.Quick, Generator: "local", Driver: loadtest.Auto,
		Limits: verdict.DefaultLimits(),
	}, cy.Request)
}

func TestAPIRefusesWithAProblemDocument(t *testing.T) {
	s := newServer(t, story())
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/cycles/99", "", 404, "cycle 99"},
		{"GET", "/nowhere", "", 404, "There is nothing"},
		{"GET", "/cycles/99/events", "", 404, "cycle 99"},
		{"GET", "/cycles/99/runs", "", 404, "cycle 99"},
		{"GET", "/cycles?limit=0", "", 422, "query.limit"},
		{"POST", "/cycles", `{"speed":"fast"}`, 422, "body.speed"},
		{"POST", "/cycles", `{"profile":"huge"}`, 422, "choose one of"},
		{"POST", "/cycles", `{"generator":"openai"}`, 422, "set OPENAI_API_KEY"},
		{"POST", "/cycles", `{"generator":"file"}`, 422, "needs a proposal"},
		{"POST", "/cycles", `{"kind":"play"}`, 422, "body.kind"},
		{"POST", "/cycles", `{`, 400, "unexpected end"},
		{"POST", "/versions/2/activate", `{"reason":"back"}`, 409, "another trial is in force"},
		{"POST", "/versions/2/activate", `{"reason":""}`, 422, "body.reason"},
		{"POST", "/schedules", `{"name":"n","cron":"never"}`, 422, "cron"},
		{"DELETE", "/schedules/9", "", 404, "schedule 9"},
	} {
		w := callAPI(t, s, c.method, c.path, c.body, c.status, nil)
		require.Contains(t, w.Body.String(), c.says, "%s %s", c.method, c.path)
	}
}

func TestAPIKeepsSchedules(t *testing.T) {
	m := newMemory()
	s := newServer(t, m)
	var sc scheduleAnswer
	callAPI(t, s, "POST", "/schedules", `{"name":"nightly","cron":"30 2 * * *","time_zone":"Europe/Athens"}`, http.StatusCreated, &sc)
	require.True(t, sc.Enabled)
	require.Len(t, sc.Next, upcoming)
	require.Equal(t, "run_once", sc.Missed)
	sent, err := json.Marshal(sc)
	require.NoError(t, err)
	callAPI(t, s, "PUT", "/schedules/1", string(sent), http.StatusOK, nil) // as it was read
	sent, err = json.Marshal(orchestrator.Schedule{Name: "cli", Cron: "@daily", Zone: "UTC", Driver: loadtest.Auto, Missed: "skip", Enabled: true})
	require.NoError(t, err)
	callAPI(t, s, "POST", "/schedules", string(sent), http.StatusCreated, nil) // as the command line sends it
	callAPI(t, s, "DELETE", "/schedules/2", "", http.StatusNoContent, nil)
	callAPI(t, s, "POST", "/schedules/1/pause", "", http.StatusOK, &sc)
	require.False(t, sc.Enabled)
	callAPI(t, s, "PUT", "/schedules/1", `{"name":"hourly","cron":"0 * * * *","missed":"skip"}`, http.StatusOK, &sc)
	require.Equal(t, "hourly", m.plans[0].Name)
	var cy orchestrator.Cycle
	callAPI(t, s, "POST", "/schedules/1/run", "", http.StatusAccepted, &cy)
	require.Equal(t, int64(1), cy.Schedule)
	callAPI(t, s, "DELETE", "/schedules/1", "", http.StatusNoContent, nil)
	require.Empty(t, m.plans)
}

func TestAPIActivatesAndProposes(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	var p orchestrator.Pointer
	callAPI(t, s, "POST", "/versions/2/activate", `{"reason":"v5 is too clever"}`, http.StatusOK, &p)
	require.Equal(t, 2, p.Accepted)
	require.Equal(t, "v5 is too clever", m.moves[len(m.moves)-1].Reason)

	body, err := json.Marshal(proposeBody{YAML: m.versionList[4].YAML, Reason: "by hand", Author: "kostas", Parent: 2})
	require.NoError(t, err)
	w := callAPI(t, s, "POST", "/versions", string(body), http.StatusCreated, nil)
	require.Equal(t, "/api/v1/versions/7", w.Header().Get("Location"))
	require.Equal(t, "kostas", m.versionList[6].Author)
	other := strings.Replace(string(body), "cooldown: 10s", "cooldown: 20s", 1)
	callAPI(t, s, "POST", "/versions", other, http.StatusConflict, nil) // v2 is not active any more
}

func TestAPIDescribesItself(t *testing.T) {
	w := ask(t, newServer(t, newMemory()), "GET", "/openapi.yaml", nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "openapi: 3.1.0")
	for _, path := range []string{"/api/v1/cycles/{id}/live", "/api/v1/versions/{a}/diff/{b}", "/api/v1/schedules/{id}/run"} {
		require.Contains(t, w.Body.String(), path)
	}
}
