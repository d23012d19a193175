package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// storyProposals gives the model's cycles a tournament: one refused, one beaten, one chosen.
func (m *memory) storyProposals(cy orchestrator.Cycle) {
	if cy.Generator != "openai" || cy.Candidate == 0 {
		return
	}
	set, _ := rules.Parse("story", []byte(firstRules))
	at := verdict.Measurement{Requests: 900, RPS: 60, P95MS: 612, ErrorRate: 0.004}
	for i, p := range []orchestrator.Proposal{
		{Author: "gpt-4o", Fate: orchestrator.Refused, Why: "refused without a trial: detection.spike_rate: 0.20 is not above gradual_increase_rate 0.30", Changes: []string{"detection.spike_rate: 1 → 0.2"},
			Remarks: []rules.Remark{{Severity: rules.Refuse, Path: "detection.spike_rate", Text: "0.20 is not above gradual_increase_rate 0.30", Fix: "raise it"}}},
		{Author: "gpt-4o", Fate: orchestrator.Beaten, Why: "its score in the screening is 0.40 and the best is -1.10, with a noise of 0.61", Changes: []string{"SPIKE: ROUND_ROBIN → RANDOM"},
			Screening: &orchestrator.Screening{Place: 2, Score: 0.4, Noise: 0.305, Scenarios: []orchestrator.Screened{{Scenario: "burst", Champion: at, Proposal: at, Harm: 0.4}}}},
		{Author: "local", Fate: orchestrator.Chosen, Version: cy.Candidate, Why: "chosen by the screening", Changes: []string{"SPIKE: ROUND_ROBIN → LEAST_CONNECTIONS", hostile}, Summary: hostile,
			Remarks:   []rules.Remark{{Severity: rules.Warn, Path: "rules.OVERLOADED_NODE", Text: "never in force", Fix: "leave it"}},
			Screening: &orchestrator.Screening{Place: 1, Score: -1.1, Noise: 0.305, Scenarios: []orchestrator.Screened{{Scenario: "burst", Champion: at, Proposal: at, Harm: -1.1}}}},
	} {
		p.Number, p.Rules, p.YAML = i+1, set, firstRules
		p.Replay = steering.Report{Windows: 30, Switches: 5, Adoptions: 4, SwitchesPerMinute: 0.2, States: map[traffic.State]int{traffic.HighStable: 30}, Held: map[traffic.State]int{traffic.HighStable: 30}}
		m.proposals[cy.ID] = append(m.proposals[cy.ID], p)
	}
}

func TestACyclesPageShowsWhoTookPartAndWhyTheyWereDropped(t *testing.T) {
	page := ask(t, newServer(t, story()), "GET", "/cycles/3", nil).Body.String()
	for _, says := range []string{
		"0.20 is not above gradual_increase_rate 0.30", "its score in the screening is 0.40", "chosen by the screening", "-1.10 ± 0.61",
		"these figures never reach the judge", "Switches: 1 in 30 windows, 0.2 a minute", "SPIKE: ROUND_ROBIN → RANDOM",
	} {
		require.Contains(t, page, says)
	}
	require.NotContains(t, page, hostile, "what a model wrote is text")
	require.NotContains(t, ask(t, newServer(t, story()), "GET", "/cycles/6", nil).Body.String(), "Proposals", "a cycle without any has no section")
}

func TestAPIListsProposals(t *testing.T) {
	var got list[orchestrator.Proposal]
	callAPI(t, newServer(t, story()), "GET", "/cycles/3/proposals", "", http.StatusOK, &got)
	require.Len(t, got.Items, 3)
	require.Equal(t, orchestrator.Refused, got.Items[0].Fate)
	require.InDelta(t, -1.1, got.Items[2].Screening.Score, 1e-9)
	callAPI(t, newServer(t, story()), "GET", "/cycles/99/proposals", "", http.StatusNotFound, nil)
}

// burst is what a proxy recorded: steady, then a window far over the rest.
func burst(context.Context, time.Time) ([]traffic.Snapshot, error) {
	var all []traffic.Snapshot
	for i, rps := range []float64{60, 60, 60, 240, 240, 240} {
		s := traffic.Snapshot{Seq: uint64(i), At: time.Unix(int64(10*i), 0), Window: 10 * time.Second, RPS: rps, State: traffic.HighStable}
		if i > 0 {
			rate := (rps - all[i-1].RPS) / all[i-1].RPS
			s.PreviousRPS, s.RPSChangeRate = all[i-1].RPS, &rate
		}
		all = append(all, s)
	}
	return all, nil
}

func TestLintReplaysTheProxysLastHour(t *testing.T) {
	s := newServer(t, story(), func(c *Config) { c.Snapshots = burst })
	yaml := `{"yaml":` + quoteJSON(firstRules) + `}`
	var v lintView
	callAPI(t, s, "POST", "/lint", yaml, http.StatusOK, &v)
	require.Equal(t, 6, v.Replay.Windows)
	require.Equal(t, "the snapshots of the proxy's last hour", v.Over)
	require.Contains(t, v.Remarks, rules.Remark{Severity: rules.Warn, Path: "rules.OVERLOADED_NODE", Text: "never in force: none of the 6 recorded windows was OVERLOADED_NODE",
		Fix: "leave it if such traffic just did not occur, else lower detection.overload_latency or detection.overload_error_rate"})

	mute := newServer(t, story(), func(c *Config) {
		c.Snapshots = func(context.Context, time.Time) ([]traffic.Snapshot, error) {
			return nil, errors.New("connection refused")
		}
	})
	callAPI(t, mute, "POST", "/lint", yaml, http.StatusOK, &v)
	require.Zero(t, v.Replay.Windows)
	require.Equal(t, "nothing: connection refused", v.Over)
	callAPI(t, mute, "POST", "/lint", `{"yaml":"version: 0"}`, http.StatusUnprocessableEntity, nil)
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestAProposalShowsWhatTheLintFinds(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m, func(c *Config) { c.Snapshots = burst })
	backwards := strings.Replace(m.versionList[4].YAML, "spike_rate: 1", "spike_rate: 0.1", 1)
	page := ask(t, s, "POST", "/versions/propose", url.Values{"yaml": {backwards}, "parent": {"5"}}).Body.String()
	require.Contains(t, page, "is not above gradual_increase_rate")
	require.Contains(t, page, "Windows under its rule")
	require.Contains(t, page, "Apply it now", "a person may all the same")
}

// What was found before a version's trial is shown with it, and not looked for again: the cycle has recorded more since.
func TestAVersionShowsWhatWasFoundBeforeItsTrial(t *testing.T) {
	m := story()
	chosen := m.proposals[3][2]
	page := ask(t, newServer(t, m), "GET", fmt.Sprintf("/versions/%d", chosen.Version), nil).Body.String()
	require.Contains(t, page, "never in force")
	require.Contains(t, page, "Switches: 1 in 30 windows")
	page = ask(t, newServer(t, m), "GET", "/versions/1", nil).Body.String()
	require.Contains(t, page, "Lint and replay")
	require.NotContains(t, page, "Replayed over", "nobody proposed it")
}

func TestRulesThatAreInForceAreNotMadeAgain(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	active := m.versionList[4].YAML
	form := url.Values{"yaml": {active}, "parent": {"5"}, "reason": {"once more"}}
	require.Contains(t, ask(t, s, "POST", "/versions/propose", form).Body.String(), `name="force"`)
	w := ask(t, s, "POST", "/versions", form)
	require.Equal(t, "/versions/5?same=1", w.Header().Get("Location"))
	require.Contains(t, ask(t, s, "GET", w.Header().Get("Location"), nil).Body.String(), "Already in force as v5.")
	require.Len(t, m.versionList, 6)

	var got struct {
		Version int  `json:"version"`
		Same    bool `json:"already_in_force"`
	}
	body := func(more string) string { return `{"reason":"again",` + more + `"yaml":` + quoteJSON(active) + `}` }
	callAPI(t, s, "POST", "/versions", body(""), http.StatusOK, &got)
	require.Equal(t, 5, got.Version)
	require.True(t, got.Same)
	callAPI(t, s, "POST", "/versions", body(`"force":true,`), http.StatusCreated, &got)
	require.Equal(t, 7, got.Version)
	form.Set("parent", "7")
	form.Set("force", "true")
	require.Equal(t, "/versions/8", ask(t, s, "POST", "/versions", form).Header().Get("Location"))
}

func TestWhoAsksIsOnRecord(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	for i, test := range []struct{ header, more, want string }{
		{"", "", "api"},
		{"Basic YWRhOng=", "", "ada"}, // ada:x
		{"Basic YWRhOng=", `"author":"grace",`, "grace"},
	} {
		yaml := strings.Replace(m.versionList[4].YAML, "cooldown: 10s", fmt.Sprintf("cooldown: 2%ds", i), 1)
		r := httptest.NewRequest("POST", apiBase+"/versions", strings.NewReader(`{"reason":"r",`+test.more+`"yaml":`+quoteJSON(yaml)+`}`))
		r.Host = "127.0.0.1:8090"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", test.header)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		require.Equal(t, test.want, m.versionList[len(m.versionList)-1].Author)
	}
}
