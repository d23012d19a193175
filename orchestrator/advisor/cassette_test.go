package advisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replayed is what a cassette answers.
func replayed(t *testing.T, cassette string, strict bool, e Evidence) (Advice, error) {
	t.Helper()
	c, err := ReadCassette(cassette)
	require.NoError(t, err)
	c.Strict = strict
	g, err := New("openai", Config{OpenAI{Replay: c}})
	require.NoError(t, err)
	return g.Advise(context.Background(), e)
}

// recorded is a conversation with a server, and its cassette.
func recorded(t *testing.T, m *model, change func(*OpenAI)) (Advice, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new", "cassette.jsonl")
	a, err := m.ask(t, func(c *OpenAI) { c.Record = path; change(c) })
	text, readErr := os.ReadFile(path)
	require.NoError(t, readErr)
	require.NotContains(t, string(text), key)
	left, readErr := os.ReadDir(filepath.Dir(path))
	require.NoError(t, readErr)
	require.Len(t, left, 1, "nothing else is left in the folder")
	return a, string(text), err
}

func TestARecordedConversationIsReplayedByteForByte(t *testing.T) {
	odd := strings.Replace(completion(good()), "Two choices", "Two \xff <choices> \u2028", 1)
	m := serve(t, refuse(429, "slow down, "+key, ""), cut, says("no JSON", "stop"), raw(200, "application/json", odd))
	a, cassette, err := recorded(t, m, asIs)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(cassette, "\n"))
	b, err := replayed(t, "# a note\n\n"+cassette, true, evidence())
	require.NoError(t, err)
	require.Equal(t, a.Rules, b.Rules)
	require.Equal(t, a.Reasons, b.Reasons)
	require.Equal(t, outcomes(a), outcomes(b))
	for i := range a.Calls {
		require.Equal(t, a.Calls[i].Request, b.Calls[i].Request)
		if i != 1 { // of an answer that broke off a cassette keeps why
			require.Equal(t, a.Calls[i].Response, b.Calls[i].Response)
		}
	}
	last := b.Calls[3]
	require.Equal(t, "exchange 4 of 4", last.Replayed)
	require.Nil(t, last.CostUSD)
	require.Equal(t, "cassette", last.Provider)

	c, err := ReadCassette(cassette)
	require.NoError(t, err)
	require.Equal(t, odd, string(c.exchanges[3].Bytes), "byte for byte")
	require.Contains(t, c.exchanges[0].Body, "slow down, [key]")
}

func TestAReplayEndsAsTheRecordingDid(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tls := httptest.NewUnstartedServer(nil)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		change func(*OpenAI)
		want   string
		calls  int
	}{
		"an answer that is too large":        {says(strings.Repeat("x", 5<<20), "stop"), asIs, "the answer is larger than 1024 KiB", 1},
		"a server that nobody trusts":        {hang, func(c *OpenAI) { c.BaseURL = tls.URL }, "certificate", 1},
		"a redirect":                         {http.RedirectHandler("/", http.StatusFound).ServeHTTP, asIs, "the key is sent nowhere else", 1},
		"a refusal":                          {refuse(401, "no", ""), asIs, "check OPENAI_API_KEY", 1},
		"come back when nobody waits longer": {waitFor("3600"), asIs, "(429) after 1 attempts", 1},
		"500 for ever":                       {refuse(500, "oops", ""), asIs, "500 after 5 attempts: oops", 5},
		"no answer in a call's time":         {hang, func(c *OpenAI) { c.CallTimeout = 20 * time.Millisecond }, "no answer within", 5},
		"no answer in all the time":          {hang, func(c *OpenAI) { c.Total = 100 * time.Millisecond }, "context deadline exceeded", 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, cassette, err := recorded(t, serve(t, c.answer), c.change)
			require.ErrorContains(t, err, c.want)
			b, again := replayed(t, cassette, true, evidence())
			require.ErrorContains(t, again, c.want)
			require.Equal(t, errors.Is(err, context.DeadlineExceeded), errors.Is(again, context.DeadlineExceeded))
			require.Len(t, a.Calls, c.calls)
			require.Equal(t, outcomes(a), outcomes(b))
		})
	}
}

func TestAReplaySaysWhereARequestDiffers(t *testing.T) {
	_, cassette, err := recorded(t, serve(t, says(good(), "stop")), asIs)
	require.NoError(t, err)
	other := evidence()
	other.Scenarios[0].P95MS = 999
	a, err := replayed(t, cassette, false, other)
	require.NoError(t, err, "no two measurements are alike")
	require.Equal(t, "exchange 1 of 1; its evidence was another", a.Calls[0].Replayed)

	_, err = replayed(t, cassette, true, other)
	require.ErrorContains(t, err, "exchange 1 of 1 of the cassette is not for this request: at /messages/1/content it has")
	require.ErrorContains(t, err, `"p95_ms\":[999,655]`, "where the texts part")

	c, err := ReadCassette(cassette)
	require.NoError(t, err)
	zero := 0.0
	o, err := newOpenAI(OpenAI{Replay: c, Temperature: &zero})
	require.NoError(t, err)
	_, err = o.Advise(context.Background(), evidence())
	require.ErrorContains(t, err, "at /temperature it has 1e-45, recorded was 0.3")

	_, cassette, err = recorded(t, serve(t, says("no JSON", "stop")), asIs)
	require.Error(t, err)
	short := strings.SplitAfter(cassette, "\n")[0]
	_, err = replayed(t, short, true, evidence())
	require.ErrorContains(t, err, "the cassette ends after 1 exchanges, and one more was asked for")
}

func TestADamagedCassetteIsRefusedWithItsLine(t *testing.T) {
	_, cassette, _ := recorded(t, serve(t, says(good(), "stop")), asIs)
	for want, text := range map[string]string{
		"the cassette holds no exchange":           "\n# nothing\n",
		"line 2 of the cassette is no exchange":    cassette + cassette[:200],
		"it was changed since":                     strings.Replace(cassette, "gpt-4o", "gpt-5", 1),
		"its request is no JSON":                   `{"request_sha256":"","status":200}`,
		"status 99: want 200 to 599":               strings.Replace(cassette, `"status":200`, `"status":99`, 1),
		`outcome "ok": want timeout or http_error`: strings.Replace(cassette, `"status":200`, `"status":200,"outcome":"ok"`, 1),
		"a cassette of 1048577 bytes, at most":     strings.Repeat("x", MaxCassette+1),
		"line 1 of the cassette is no exchange: ":  "<html>",
	} {
		_, err := ReadCassette(text)
		require.ErrorContains(t, err, want)
	}
}

func TestEachCycleHasACassetteOfItsOwn(t *testing.T) {
	require.Nil(t, tapeFor("", 7))
	require.Equal(t, "tapes/cycle-7.jsonl", tapeFor("tapes", 7).path)
	require.Equal(t, "tapes/calls.jsonl", tapeFor("tapes", 0).path)
	require.Equal(t, "all.jsonl", tapeFor("all.jsonl", 7).path)
	m := serve(t, says(good(), "stop"))
	_, err := m.ask(t, func(c *OpenAI) { c.Record = "/dev/null/nowhere" })
	require.ErrorContains(t, err, "recording the exchange")
}

// testdata/cassette.jsonl was recorded at the test server; there is no real model and no real key behind it. UPDATE=1
// records it anew, after a change of the prompts or the schema.
func TestTheCassetteOfTheRepository(t *testing.T) {
	path := filepath.Join("testdata", "cassette.jsonl")
	if os.Getenv("UPDATE") != "" {
		bad := spoiled(func(a map[string]any) { rule(a, 0)["algorithm"] = "magic" })
		_, text, err := recorded(t, serve(t, says(bad, "stop"), says(good(), "stop")), asIs)
		require.NoError(t, err)
		note := "# Recorded at the test server of orchestrator/advisor, not at a real model: UPDATE=1 go test -run Repository ./orchestrator/advisor\n"
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(note+text), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := replayed(t, string(text), true, evidence())
	require.NoError(t, err, "after a change of the prompts or the schema it has to be recorded anew: UPDATE=1")
	usable(t, a)
	require.Equal(t, []CallOutcome{CallInvalidRules, CallOK}, outcomes(a))
	var at struct{ At time.Time }
	require.NoError(t, json.Unmarshal([]byte(strings.Split(string(text), "\n")[1]), &at))
	require.False(t, at.At.IsZero())
}
