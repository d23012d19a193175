package orchestrator_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// notebook is a ledger that keeps the calls of a model.
type notebook struct {
	*ledger
	calls []advisor.Call
}

func (n *notebook) SaveCalls(_ context.Context, _ int64, _ int, calls []advisor.Call) error {
	n.calls = append(n.calls, calls...)
	return nil
}

// asked is a whole cycle whose generator is the real one, over HTTP, at an endpoint that answers with these bodies in turn, the
// last one for ever.
func asked(t *testing.T, bodies ...string) (orchestrator.Cycle, *bench, []advisor.Call) {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, bodies[min(asked, len(bodies)-1)])
		asked++
	}))
	t.Cleanup(server.Close)
	g, err := advisor.New("openai", advisor.Config{OpenAI: advisor.OpenAI{BaseURL: server.URL + "/v1"}})
	require.NoError(t, err)
	b := newBench(g)
	b.load.p95 = map[int]float64{1: 200, 2: 100}
	kept := &notebook{ledger: b.ledger}
	b.tuner.Notebook = kept
	c, err := b.tuner.Run(t.Context(), request())
	require.NoError(t, err)
	return c, b, kept.calls
}

// completion is a chat completion's JSON; change spoils a good answer.
func completion(finish string, change func(map[string]any)) string {
	var list []any
	for _, s := range traffic.States() {
		algorithm := rules.Default().Rules[s].Algorithm
		if s == traffic.Spike {
			algorithm = "EXPECTED_COMPLETION"
		}
		list = append(list, map[string]any{"state": s, "algorithm": algorithm, "reason": "rps 80, a gain of 4321 ms", "decay": ""})
	}
	answer := map[string]any{"summary": "Two thousand and 9876 rps.", "rules": list, "thresholds": []any{}}
	change(answer)
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return said(string(text), finish)
}

func said(text, finish string) string {
	b, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"finish_reason": finish, "message": map[string]any{"role": "assistant", "content": text}}},
		"usage":   map[string]any{"prompt_tokens": 1000, "completion_tokens": 200},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func asItIs(map[string]any) {}

func TestACycleWithWorthlessAnswersFailsAndLeavesNothingBehind(t *testing.T) {
	set := func(key string, v any) func(map[string]any) { return func(a map[string]any) { a[key] = v } }
	many := func(a map[string]any) {
		for range 195 {
			a["rules"] = append(a["rules"].([]any), a["rules"].([]any)[0])
		}
	}
	threshold := func(path, value string) func(map[string]any) {
		return set("thresholds", []any{map[string]any{"path": path, "value": value, "reason": "rps 80"}})
	}
	for name, c := range map[string]struct {
		body  string
		want  string
		calls int
	}{
		"a scalar for a list": {completion("stop", set("rules", "HIGH_STABLE")), "/rules/0: got string, want object", 3},
		"200 rules":           {completion("stop", many), "200 of them, want 5", 3},
		"1e308":               {completion("stop", threshold("detection.low_traffic_rps", "1e308")), "low_traffic_rps", 3},
		"NaN":                 {completion("stop", threshold("detection.spike_rate", "NaN")), "spike_rate", 3},
		"cut off":             {completion("length", asItIs), "cut off at 200 tokens", 3},
		"empty":               {said("", "stop"), "the answer is empty", 3},
		"two answers":         {said(`{"rules":[]} {"rules":[1]}`, "stop"), "two rule sets that differ", 3},
		"filtered":            {said("", "content_filter"), "the model refused", 1},
		"5 MB":                {said(strings.Repeat("x", 5<<20), "stop"), "larger than 1024 KiB", 1},
		"HTML":                {"<html>Sign in</html>", "no chat completion", 1},
	} {
		t.Run(name, func(t *testing.T) {
			end, b, calls := asked(t, c.body)
			require.Equal(t, orchestrator.Failed, end.Status)
			require.Contains(t, end.Why, "generating rules: asking gpt-4o at 127.0.0.1")
			require.Contains(t, end.Why, c.want)
			require.Zero(t, end.Candidate)
			require.Len(t, b.ledger.versions, 1, "no version is stored, not even half of one")
			require.Len(t, calls, c.calls, "every exchange is kept")
			championIsBack(t, b)
			require.Empty(t, b.ledger.moves)
		})
	}
}

func TestACycleMendsAnAnswerAndMarksItsUnsupportedFigures(t *testing.T) {
	bad := completion("stop", func(a map[string]any) { a["rules"] = a["rules"].([]any)[:4] })
	end, b, calls := asked(t, bad, completion("stop", asItIs))
	require.Equal(t, orchestrator.Kept, end.Status, end.Why)
	require.Len(t, calls, 2)
	v := b.ledger.versions[1]
	require.Equal(t, 1, strings.Count(v.YAML, `SPIKE:            { algorithm: EXPECTED_COMPLETION,        reason: "rps 80, a gain of 4321 ms (unsupported: 4321 ms)"`),
		"the file that proxies show their reasons from says it too:\n%s", v.YAML)
	require.Equal(t, []string{"4321 ms"}, v.Reasons[3].Unsupported)
	require.Equal(t, "rps 80, a gain of 4321 ms", v.Reasons[3].Text)
}

// The cassette was recorded at a test server, with other evidence: no two cycles measure the same.
func TestACassetteAnswersAWholeCycle(t *testing.T) {
	cassette, err := os.ReadFile("advisor/testdata/cassette.jsonl")
	require.NoError(t, err)
	b := newBench(nil)
	b.load.p95 = map[int]float64{1: 200, 2: 100}
	kept := &notebook{ledger: b.ledger}
	b.tuner.Notebook = kept
	b.tuner.Replay = func(text string) (orchestrator.Advisor, error) {
		c, err := advisor.ReadCassette(text)
		if err != nil {
			return nil, err
		}
		return advisor.New("openai", advisor.Config{OpenAI: advisor.OpenAI{Replay: c}})
	}
	r := request()
	r.Generator, r.Replay = "replay", string(cassette)
	c, err := b.tuner.Run(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Kept, c.Status, c.Why)
	require.Len(t, kept.calls, 2)
	require.Equal(t, "exchange 2 of 2; its evidence was another", kept.calls[1].Replayed)

	r.Replay = string(cassette[:len(cassette)-9])
	c, err = b.tuner.Run(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Failed, c.Status)
	require.Contains(t, c.Why, "line 3 of the cassette is no exchange")
}
