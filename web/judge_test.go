package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// telling is the story with pairs that mean something: in cycle 2 burst's p95 is 42% higher with the candidate.
func telling() *memory {
	m := story()
	for i, r := range m.runList {
		if r.CycleID == 2 && r.Pair > 0 {
			p95 := 600 + float64(r.Pair)
			if r.Scenario == "burst" && r.Arm == orchestrator.ArmCandidate {
				p95 *= 1.42
			}
			m.runList[i].Result.P95MS = p95
		}
	}
	return m
}

func TestAPIJudgesACycleAgain(t *testing.T) {
	m := telling()
	s := newServer(t, m)
	var r orchestrator.Rejudgement
	callAPI(t, s, "GET", "/cycles/2/judge", "", http.StatusOK, &r)
	require.Equal(t, verdict.RolledBack, r.Verdict.Outcome, r.Verdict.Reason)
	require.Equal(t, verdict.DefaultLimits(), r.Verdict.Limits)
	require.Equal(t, verdict.RolledBack, r.Stored.Outcome)
	require.NotEmpty(t, r.Noise.Known, "it says which noise was used")

	before, err := json.Marshal(m.cycleList[1])
	require.NoError(t, err)
	callAPI(t, s, "GET", "/cycles/2/judge?p95=80%25&errors=1", "", http.StatusOK, &r)
	require.Equal(t, verdict.Kept, r.Verdict.Outcome, r.Verdict.Reason)
	require.Equal(t, verdict.Limits{P95Increase: 0.8, RPSDecrease: 0.15, ErrorIncrease: 0.01}, r.Verdict.Limits)
	after, err := json.Marshal(m.cycleList[1])
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	for query, says := range map[string]string{
		"p95=10%":             "write a percentage as p95=10%25",
		"p95=10":              "write 10%",
		"p95=0.1&p95=0.9":     "p95 is given 2 times",
		"p59=0.1":             "query.p59",
		"errors=0.02":         "write 0.02pp or 2pp",
		"p95=x&rps=y&errors=": "limit rps",
		"rps=100%25":          "below 1",
	} {
		w := callAPI(t, s, "GET", "/cycles/2/judge?"+query, "", http.StatusUnprocessableEntity, nil)
		require.Contains(t, w.Body.String(), says, query)
	}
	for path, says := range map[string]string{
		"/cycles/4/judge": "has no pairs to judge",
		"/cycles/7/judge": "still verifying",
	} {
		require.Contains(t, callAPI(t, s, "GET", path, "", http.StatusUnprocessableEntity, nil).Body.String(), says)
	}
	callAPI(t, s, "GET", "/cycles/99/judge", "", http.StatusNotFound, nil)
}

func TestThePageJudgesACycleAgain(t *testing.T) {
	s := newServer(t, telling())
	w := ask(t, s, "GET", "/cycles/2", nil)
	require.Contains(t, w.Body.String(), `name="p95" value="15%"`)
	require.NotContains(t, w.Body.String(), "As it ended", "nothing was asked for")

	w = ask(t, s, "GET", "/cycles/2?p95=80%25&rps=15%25&errors=2pt", nil)
	require.Equal(t, http.StatusOK, w.Code)
	for _, says := range []string{`name="p95" value="80%"`, "Under p95 +80%", "As it ended, under p95 +15%", "The noise is taken as it was known then"} {
		require.Contains(t, w.Body.String(), says)
	}
	for query, says := range map[string]string{"p95=10": "write 10%", "p95=10%": "write a percentage as p95=10%25", "p95=%3Cscript%3E": "&lt;script&gt;"} {
		w = ask(t, s, "GET", "/cycles/2?"+query, nil)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, query)
		require.Contains(t, w.Body.String(), says, query)
		require.Contains(t, w.Body.String(), "was rolled back", "the cycle is shown all the same")
	}
	require.Contains(t, ask(t, s, "GET", "/cycles/4", nil).Body.String(), "has no pairs to judge")
	require.NotContains(t, ask(t, s, "GET", "/cycles/7", nil).Body.String(), "Judge again")
}

func TestACycleIsJudgedAgainByKeyboard(t *testing.T) {
	b := newBrowser(t)
	base, _ := serve(t, telling())
	b.open(base + "/cycles/2")
	evaluate[any](b, `document.querySelector("#again input[name=p95]").select() || document.querySelector("#again input[name=p95]").focus()`)
	b.press("80%")
	b.press(kb.Enter)
	b.wait(`location.search.includes("p95=80%25") && document.body.innerText.includes("As it ended")`)
	require.Equal(t, "#again", evaluate[string](b, "location.hash"))
	require.Equal(t, "80%", evaluate[string](b, `document.querySelector("#again input[name=p95]").value`), "what was typed stays")
	require.Contains(t, evaluate[string](b, `document.querySelector("#again dl").innerText`), "kept")
	require.Empty(t, b.complaints())
}

func TestACycleStartsWithTheLimitsThatAreGiven(t *testing.T) {
	m := newMemory()
	s := newServer(t, m)
	w := ask(t, s, "POST", "/cycles", url.Values{"p95": {"10"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "write 10%")
	require.Empty(t, m.cycleList)
	w = ask(t, s, "POST", "/cycles", url.Values{"p95": {"10%"}, "rps": {""}, "errors": {"1"}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, verdict.Limits{P95Increase: 0.1, RPSDecrease: 0.15, ErrorIncrease: 0.01}, m.cycleList[0].Limits)
}

func TestWhatAProfileCanTellIsSaidBeforeItStarts(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	home := ask(t, s, "GET", "/", nil).Body.String()
	require.Contains(t, home, "What each profile can tell on this machine")
	require.Contains(t, home, "The noise of this machine under standard with the driver builtin is not known yet")
	require.NotContains(t, ask(t, s, "GET", "/", nil, "HX-Request", "true").Body.String(), "What each profile can tell")
	require.Contains(t, ask(t, s, "GET", "/schedules", nil).Body.String(), "under nightly with the driver k6 is not known yet")
	require.Contains(t, ask(t, s, "GET", "/about", nil).Body.String(), "its newest pair is 11 days old")

	for i := range m.noise[0].Known {
		m.noise[0].Known[i].SD *= 12
	}
	require.Contains(t, ask(t, s, "GET", "/", nil).Body.String(), "be expected to decide here")
	var answer startedCycle
	callAPI(t, s, "POST", "/cycles", `{"profile":"quick","driver":"builtin"}`, http.StatusAccepted, &answer)
	require.False(t, answer.Outlook.Decides())
	require.Greater(t, answer.Outlook.Hardest.Needed, answer.Outlook.Pairs)
	require.Greater(t, answer.Outlook.NeededTakes, answer.Outlook.Takes)
	require.NotEmpty(t, answer.Outlook.Stale)
	require.Equal(t, orchestrator.Queued, m.cycleList[7].Status, "it is no bar to a start")
	require.Contains(t, ask(t, s, "GET", "/cycles/8", nil).Body.String(), "be expected to decide here")
}

func TestAPITellsTheNoise(t *testing.T) {
	s := newServer(t, story())
	var then noiseView
	callAPI(t, s, "GET", "/cycles/2/noise", "", http.StatusOK, &then)
	require.Contains(t, then.Says, "was known from 8 pairs in 5 scenarios, the newest 3 days old")
	callAPI(t, s, "GET", "/cycles/5/noise", "", http.StatusOK, &then)
	require.Contains(t, then.Says, "was not known before")
	var now list[noiseView]
	callAPI(t, s, "GET", "/noise", "", http.StatusOK, &now)
	require.NotEmpty(t, now.Items[0].Stale)
	var all list[orchestrator.Outlook]
	callAPI(t, s, "GET", "/outlooks", "", http.StatusOK, &all)
	require.Len(t, all.Items, 3)
	require.Equal(t, loadtest.Quick, all.Items[0].Profile)
}
