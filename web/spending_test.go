package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
)

func capped(c *Config) { c.Caps = advisor.DefaultCaps() }

func TestWhatAModelCostIsShownWithItsCapsAndTheDateOfItsPrices(t *testing.T) {
	m := story()
	s := newServer(t, m, capped)
	page := ask(t, s, "GET", "/cycles/2", nil).Body.String()
	require.Contains(t, page, "This cycle: at least $0.0118, 1 call of unknown price (cap $1.00), 4954 tokens (cap 200000), 2 calls.")
	require.Contains(t, page, "Prices of "+advisor.PricesAsOf)
	require.Contains(t, page, "$0.0118 (prices of "+advisor.PricesAsOf+")")
	require.Contains(t, page, "cost unknown")
	require.NotContains(t, ask(t, s, "GET", "/cycles/1", nil).Body.String(), "This cycle:", "a cycle without a model says nothing of cost")

	about := ask(t, s, "GET", "/about", nil).Body.String()
	require.Contains(t, about, "Today (UTC): at least $")
	require.Contains(t, about, "--max-usd-per-day")
	require.Contains(t, ask(t, newServer(t, m), "GET", "/about", nil).Body.String(), "no cap")

	var got Spending
	w := ask(t, s, "GET", "/api/v1/cycles/2/spending", nil)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, 2, got.Cycle.Calls)
	require.Equal(t, 1, got.Cycle.Unknown)
	require.InDelta(t, 10, got.Caps.DayUSD, 0)
	require.Equal(t, http.StatusNotFound, ask(t, s, "GET", "/api/v1/cycles/999/spending", nil).Code)
	require.Contains(t, ask(t, s, "GET", "/api/v1/spending", nil).Body.String(), `"prices":"`+advisor.PricesAsOf+`"`)
}

func TestACallWithoutAnEndAndAReplaySayWhatTheyAre(t *testing.T) {
	m := story()
	m.calls[2] = []advisor.Call{
		{Provider: "api.openai.com", Model: "gpt-4o", Outcome: advisor.CallPending, MostTokens: 8021, MostUSD: new(float64), Prices: advisor.PricesAsOf},
		{Provider: "cassette", Model: "gpt-4o", Outcome: advisor.CallOK, Replayed: "exchange 1 of 1"},
	}
	page := ask(t, newServer(t, m, capped), "GET", "/cycles/2", nil).Body.String()
	require.Contains(t, page, "the most that it may have taken: 8,021 tokens")
	require.Contains(t, page, "Answered by a cassette, not by a model: exchange 1 of 1.")
	require.Contains(t, page, "replayed, no cost")
}

// v3 has a figure in its reason that is not in its evidence. Wherever the reason is shown, that is.
func TestAnUnsupportedFigureIsMarkedWhereverItsReasonIs(t *testing.T) {
	s := newServer(t, story())
	for path, want := range map[string]string{
		"/versions":                          "1 unsupported",
		"/versions/3":                        "unsupported: 884 ms",
		"/versions/diff/1..3":                "unsupported: 884 ms",
		"/versions/diff/1..3.md":             "(unsupported: 884 ms)",
		"/cycles/2":                          "1 unsupported",
		"/api/v1/versions":                   `"unsupported":["884 ms"]`,
		"/api/v1/versions/3":                 `"unsupported":["884 ms"]`,
		"/api/v1/versions/1/diff/3":          `"unsupported":["884 ms"]`,
		"/api/v1/versions/1/diff/3/markdown": "(unsupported: 884 ms)",
	} {
		w := ask(t, s, "GET", path, nil)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Body.String(), want, path)
	}
	require.NotContains(t, ask(t, s, "GET", "/versions/2", nil).Body.String(), "unsupported:")
}

func TestACycleCanBeReplayed(t *testing.T) {
	m := story()
	m.end(7, "cancelled", "for this test")
	s := newServer(t, m)
	callAPI(t, s, "POST", "/cycles", `{"generator":"replay"}`, http.StatusUnprocessableEntity, nil)
	callAPI(t, s, "POST", "/cycles", `{"generator":"replay","replay":"no cassette"}`, http.StatusUnprocessableEntity, nil)
	cassette := `{"request_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","request":{},"error":"no answer"}`
	b, err := json.Marshal(map[string]string{"generator": "replay", "replay": cassette})
	require.NoError(t, err)
	local := strings.Replace(string(b), `"generator":"replay"`, `"generator":"local"`, 1)
	callAPI(t, s, "POST", "/cycles", local, http.StatusUnprocessableEntity, nil) // a cassette goes with generator replay alone
	calibrate := strings.Replace(string(b), `{`, `{"kind":"calibrate",`, 1)
	callAPI(t, s, "POST", "/cycles", calibrate, http.StatusUnprocessableEntity, nil) // nothing is proposed in one
	var told orchestrator.Cycle
	callAPI(t, s, "POST", "/cycles", string(b), http.StatusAccepted, &told)
	require.Equal(t, cassette, m.cycleList[7].Replay)
	require.Equal(t, "replay", told.Generator)
	require.Empty(t, told.Replay, "it is large, and whoever asks has it")
}
