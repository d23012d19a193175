package advisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"retune/prompts"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

const key = "sk-test-0123456789abcdef"

// model is a server that speaks the protocol: each request takes the next answer, the last one for ever.
type model struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []http.HandlerFunc
	requests []map[string]any
}

func serve(t *testing.T, answers ...http.HandlerFunc) *model {
	m := &model{answers: answers}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var sent map[string]any
		if json.Unmarshal(body, &sent) != nil || r.Header.Get("Authorization") != "Bearer "+key {
			refuse(401, "Incorrect API key provided: "+r.Header.Get("Authorization"), "")(w, r)
			return
		}
		m.mu.Lock()
		m.requests = append(m.requests, sent)
		next := m.answers[min(len(m.requests), len(m.answers))-1]
		m.mu.Unlock()
		next(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

// says answers with a chat completion.
func says(text, finish string) http.HandlerFunc {
	return message(map[string]any{"role": "assistant", "content": text}, finish)
}

func message(m map[string]any, finish string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-2024-08-06",
			"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": m}},
			"usage":   map[string]any{"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200},
		})
	}
}

// refuse answers with an error of the API.
func refuse(status int, text, param string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error", "param": param, "code": nil}})
	}
}

func html(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><body>502 Bad Gateway</body></html>")
	}
}

// ask has the server asked, with short waits.
func (m *model) ask(t *testing.T, change func(*OpenAI)) (Advice, error) {
	t.Helper()
	c := OpenAI{Key: key, BaseURL: m.URL + "/v1/", CallTimeout: 5 * time.Second}
	change(&c)
	o, err := newOpenAI(c)
	require.NoError(t, err)
	o.waitAtMost = 20 * time.Millisecond
	a, err := o.Advise(context.Background(), evidence())
	o.Transport.(*http.Transport).CloseIdleConnections()
	told := fmt.Sprintf("%+v %v", a, err)
	require.NotContains(t, told, key)
	return a, err
}

func asIs(*OpenAI) {}

func outcomes(a Advice) []CallOutcome {
	var out []CallOutcome
	for _, c := range a.Calls {
		out = append(out, c.Outcome)
	}
	return out
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenAIAsksAndIsAnswered(t *testing.T) {
	m := serve(t, says(good(), "stop"))
	a, err := m.ask(t, asIs)
	require.NoError(t, err)
	require.Equal(t, []string{"SPIKE: ROUND_ROBIN → P2C_PEAK_EWMA", "detection.spike_rate: 1 → 0.8"}, Changes(evidence().Champion, a.Rules))
	require.Equal(t, rules.OriginLLM, a.Rules.Origin)
	require.Equal(t, "gpt-4o", a.Author)
	require.Equal(t, PromptSHA(), a.PromptSHA)
	require.Len(t, a.Reasons, 6)
	require.Equal(t, "detection.spike_rate", a.Reasons[5].Path)

	sent := m.requests[0]
	require.Equal(t, "gpt-4o", sent["model"])
	require.InDelta(t, 0.3, sent["temperature"], 1e-6)
	require.InDelta(t, 4096, sent["max_completion_tokens"], 0)
	format := sent["response_format"].(map[string]any)
	require.Equal(t, "json_schema", format["type"])
	require.Equal(t, true, format["json_schema"].(map[string]any)["strict"])
	messages := sent["messages"].([]any)
	require.Equal(t, map[string]any{"role": "system", "content": prompts.Rules}, messages[0])
	require.Equal(t, map[string]any{"role": "user", "content": Compact(evidence())}, messages[1])

	require.Equal(t, []CallOutcome{CallOK}, outcomes(a))
	c := a.Calls[0]
	require.Equal(t, []any{1000, 200, "gpt-4o", PromptSHA()}, []any{c.PromptTokens, c.CompletionTokens, c.Model, c.PromptSHA})
	require.InDelta(t, 0.0045, *c.CostUSD, 1e-12)
	require.InDelta(t, 0.3, c.Temperature, 1e-6)
	require.True(t, json.Valid([]byte(c.Request)))
	require.Contains(t, c.Response, "chatcmpl-1")
	require.Positive(t, c.Latency)
	require.WithinDuration(t, time.Now(), c.At, time.Minute)
}

// A reason may say what it proposes; that it names a figure elsewhere in the answer makes nothing true.
func TestAReasonMayNameTheValueThatItSets(t *testing.T) {
	a, err := serve(t, says(spoiled(func(a map[string]any) {
		a["summary"] = "A cooldown of 20s, and 77 ms."
		rule(a, 3)["decay"], rule(a, 3)["reason"] = "5s", "decay 5s, and 77 ms"
		a["thresholds"] = []any{map[string]any{"path": "switching.cooldown", "value": "20s", "reason": "a cooldown of 20s instead of 10s, and 30s, and 77 ms"}}
	}), "stop")).ask(t, asIs)
	require.NoError(t, err)
	require.Equal(t, "A cooldown of 20s, and 77 ms. (unsupported: 77 ms)", a.Summary)
	require.Equal(t, "decay 5s, and 77 ms (unsupported: 77 ms)", a.Rules.Rules[traffic.Spike].Reason)
	require.Equal(t, []string{"30s", "77 ms"}, a.Reasons[5].Unsupported)
}

func TestAFaultyAnswerIsHandedBackWithItsFaults(t *testing.T) {
	bad := spoiled(func(a map[string]any) { rule(a, 0)["algorithm"] = "magic" })
	m := serve(t, says(bad, "stop"), says("", "stop"), says(good(), "stop"))
	a, err := m.ask(t, asIs)
	require.NoError(t, err)
	require.Equal(t, []CallOutcome{CallInvalidRules, CallEmpty, CallOK}, outcomes(a))
	require.Contains(t, a.Calls[0].Error, "/rules/0/algorithm: value must be one of")
	second := m.requests[1]["messages"].([]any)
	require.Len(t, second, 4)
	require.Equal(t, map[string]any{"role": "assistant", "content": bad}, second[2])
	repair := second[3].(map[string]any)["content"].(string)
	require.True(t, strings.HasPrefix(repair, prompts.Repair))
	require.Contains(t, repair, "/rules/0/algorithm: value must be one of")
	require.Len(t, m.requests[2]["messages"], 5) // an empty answer is not repeated
}

func TestAfterTwoRepairsItIsOver(t *testing.T) {
	for _, c := range []struct {
		answer http.HandlerFunc
		want   CallOutcome
		text   string
	}{
		{says(spoiled(func(a map[string]any) { a["rules"] = "HIGH_STABLE" }), "stop"), CallInvalidRules, "/rules/0: got string, want object"},
		{says("no JSON", "stop"), CallInvalidJSON, "holds no JSON object"},
		{says("<html>", "stop"), CallInvalidJSON, "HTML or XML"},
		{says(good()[:100], "length"), CallTruncated, "cut off at 200 tokens"},
		{says(good(), "length"), CallTruncated, "cut off"},
		{says(" ", "stop"), CallEmpty, "the answer is empty"},
		{says(strings.Repeat("x", 300<<10), "stop"), CallInvalidJSON, "at most 262144"},
		{message(map[string]any{"role": "assistant", "content": nil}, "stop"), CallEmpty, "the answer is empty"},
		{func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"choices":[]}`) }, CallEmpty, "the answer is empty"},
	} {
		m := serve(t, c.answer)
		a, err := m.ask(t, asIs)
		require.ErrorContains(t, err, "no usable answer in 3 turns")
		require.ErrorContains(t, err, c.text)
		require.Equal(t, []CallOutcome{c.want, c.want, c.want}, outcomes(a), c.text)
		require.Empty(t, a.Rules)
	}
}

func TestARefusalIsFinal(t *testing.T) {
	for _, answer := range []http.HandlerFunc{
		message(map[string]any{"role": "assistant", "content": nil, "refusal": "I can't help with that."}, "stop"),
		says("", "content_filter"),
	} {
		a, err := serve(t, answer).ask(t, asIs)
		require.ErrorContains(t, err, "the model refused")
		require.Equal(t, []CallOutcome{CallRefused}, outcomes(a))
	}
}

func TestWhatAServerDoesNotTakeIsLeftOut(t *testing.T) {
	m := serve(t,
		refuse(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", "response_format"),
		refuse(400, "'response_format.type' must be text", "response_format"),
		refuse(400, "Unsupported value: only the default (1) is supported", "temperature"),
		refuse(422, "extra fields not permitted: max_completion_tokens", ""),
		says(good(), "stop"))
	_, err := m.ask(t, asIs)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "json_object"}, m.requests[1]["response_format"])
	require.NotContains(t, m.requests[2], "response_format")
	require.NotContains(t, m.requests[3], "temperature")
	require.NotContains(t, m.requests[4], "max_completion_tokens")
	require.InDelta(t, 4096, m.requests[4]["max_tokens"], 0)

	_, err = serve(t, refuse(400, "bad model", "model")).ask(t, asIs)
	require.ErrorContains(t, err, "the server answered 400 after 1 attempts: bad model")
}

func TestReasoningModelsGetNoTemperature(t *testing.T) {
	m := serve(t, says(good(), "stop"))
	a, err := m.ask(t, func(c *OpenAI) { c.Model = "o3" })
	require.NoError(t, err)
	require.NotContains(t, m.requests[0], "temperature")
	require.Len(t, a.Calls, 1)
}

// The library drops a temperature of 0, and the server would take its default of 1.
func TestATemperatureOfZeroIsSent(t *testing.T) {
	m := serve(t, says(good(), "stop"))
	zero := 0.0
	_, err := m.ask(t, func(c *OpenAI) { c.Temperature = &zero })
	require.NoError(t, err)
	require.InDelta(t, 0, m.requests[0]["temperature"], 1e-30)
	require.Contains(t, m.requests[0], "temperature")
}

func TestTroubleIsWaitedOut(t *testing.T) {
	after := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuse(429, "slow down", "")(w, r)
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	m := serve(t, after, html(502), cut, refuse(500, "oops", ""), says(good(), "stop"))
	began := time.Now()
	a, err := m.ask(t, asIs)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), time.Second) // that long it was told to wait
	require.Equal(t, []CallOutcome{CallHTTPError, CallHTTPError, CallHTTPError, CallHTTPError, CallOK}, outcomes(a))
	require.Contains(t, a.Calls[0].Error, "429")
	require.Contains(t, a.Calls[1].Response, "502 Bad Gateway")
}

func TestTroubleThatLastsIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		change func(*OpenAI)
		want   string
		calls  int
	}{
		"429 for ever": {refuse(429, "quota", ""), asIs, "no quota left (429) after 5 attempts: quota", 5},
		"429, come back in an hour": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			refuse(429, "quota", "")(w, r)
		}, asIs, "(429) after 1 attempts", 1},
		"500 for ever":   {refuse(500, "oops", ""), asIs, "the server answered 500 after 5 attempts: oops", 5},
		"a wrong key":    {says(good(), "stop"), func(c *OpenAI) { c.Key += "x" }, "refused the key (401): check OPENAI_API_KEY", 1},
		"a wrong path":   {says(good(), "stop"), func(c *OpenAI) { c.BaseURL += "v2" }, "check OPENAI_MODEL and OPENAI_BASE_URL", 1},
		"HTML with 200":  {html(200), asIs, "no chat completion; check OPENAI_BASE_URL", 1},
		"5 MB":           {says(strings.Repeat("x", 5<<20), "stop"), asIs, "larger than 1024 KiB", 1},
		"a redirect":     {http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound).ServeHTTP, asIs, "set OPENAI_BASE_URL to the address that it leads to", 1},
		"nobody listens": {nil, func(c *OpenAI) { c.BaseURL = "http://127.0.0.1:1/v1" }, "no answer; check OPENAI_BASE_URL", 5},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := serve(t, c.answer).ask(t, c.change)
			require.ErrorContains(t, err, c.want)
			require.Len(t, a.Calls, c.calls)
			for _, call := range a.Calls {
				require.NotEqual(t, CallOK, call.Outcome)
				require.LessOrEqual(t, len(call.Response), maxStored+8)
			}
		})
	}
}

func TestAHangEndsInTime(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	a, err := serve(t, hang, says(good(), "stop")).ask(t, func(c *OpenAI) { c.CallTimeout = time.Second })
	require.NoError(t, err, "one hang is one attempt")
	require.Equal(t, []CallOutcome{CallTimeout, CallOK}, outcomes(a))

	a, err = serve(t, hang).ask(t, func(c *OpenAI) { c.Total = 100 * time.Millisecond })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no answer in the time that all attempts have")
	require.Equal(t, []CallOutcome{CallTimeout}, outcomes(a))
}

func TestCancelEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	g, err := New("openai", Config{OpenAI{Key: key, BaseURL: m.URL + "/v1"}})
	require.NoError(t, err)
	_, err = g.Advise(ctx, evidence())
	require.ErrorIs(t, err, context.Canceled)
}

func TestAServerOfOnesOwnNeedsNoKeyAndOpenAIsDoes(t *testing.T) {
	for want, c := range map[string]OpenAI{
		"set OPENAI_API_KEY":      {},
		"no http or https URL":    {Key: key, BaseURL: "ftp://x"},
		"OPENAI_BASE_URL":         {Key: key, BaseURL: "api.openai.com"},
		"temperature of 3, want":  {Key: key, Temperature: ptr(3)},
		"OPENAI_MODEL has 300":    {Key: key, Model: strings.Repeat("m", 300)},
		"temperature of -1, want": {Key: key, Temperature: ptr(-1)},
	} {
		_, err := New("openai", Config{c})
		require.ErrorContains(t, err, want)
	}
	_, err := New("openai", Config{OpenAI{BaseURL: "http://127.0.0.1:11434/v1"}})
	require.NoError(t, err)
}

func ptr(x float64) *float64 { return &x }

func TestCostIsKnownForKnownModels(t *testing.T) {
	require.InDelta(t, 12.50, *cost("gpt-4o", 1e6, 1e6), 1e-9)
	require.InDelta(t, 0.75, *cost("gpt-4o-mini-2024-07-18", 1e6, 1e6), 1e-9)
	require.Nil(t, cost("llama3:8b", 1000, 1000))
	require.Nil(t, cost("", 0, 0))
}
