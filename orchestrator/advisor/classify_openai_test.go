package advisor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/prompts"
	"retune/proxy/traffic"
)

// twoSeries is a burst of five windows and a steady run of three.
func twoSeries() [][]traffic.Snapshot {
	return [][]traffic.Snapshot{rpsSeries(7, 60, 120, 120, 30), rpsSeries(80, 80, 80)}
}

const goodPatterns = `{"segments":[{"series":1,"from":1,"to":1,"state":"LOW_TRAFFIC"},{"series":1,"from":2,"to":4,"state":"SPIKE"},` +
	`{"series":1,"from":5,"to":5,"state":"HIGH_STABLE"},{"series":2,"from":1,"to":3,"state":"HIGH_STABLE"}]}`

func (m *model) classify(t *testing.T, series [][]traffic.Snapshot) (Labels, error) {
	t.Helper()
	o, err := newOpenAI(OpenAI{Key: key, BaseURL: m.URL + "/v1/", CallTimeout: 5 * time.Second})
	require.NoError(t, err)
	o.waitAtMost = 20 * time.Millisecond
	l, err := o.Classify(context.Background(), 7, series)
	o.Transport.(*http.Transport).CloseIdleConnections()
	require.NotContains(t, fmt.Sprintf("%+v %v", l, err), key)
	return l, err
}

func TestAModelLabelsWindowsThatItKnowsByTheirFiguresAlone(t *testing.T) {
	m := serve(t, says(goodPatterns, "stop"))
	series := twoSeries()
	for i := range series[0] {
		series[0][i].State, series[0][i].Algorithm = traffic.OverloadedNode, "ROUND_ROBIN"
	}
	l, err := m.classify(t, series)
	require.NoError(t, err)
	require.Equal(t, "gpt-4o", l.Author)
	require.Equal(t, "LSSSH HHH", letters(l.States[0])+" "+letters(l.States[1]))
	require.Len(t, l.Calls, 1)
	require.Equal(t, []any{CallOK, patternSHA()}, []any{l.Calls[0].Outcome, l.Calls[0].PromptSHA})
	require.InDelta(t, 0.2, l.Calls[0].Temperature, 1e-6)

	sent := m.requests[0]
	require.InDelta(t, 0.2, sent["temperature"], 1e-6)
	messages := sent["messages"].([]any)
	require.Equal(t, map[string]any{"role": "system", "content": prompts.Patterns}, messages[0])
	told := messages[1].(map[string]any)["content"].(string)
	require.Contains(t, told, `"rows":[[1,7,null,`)
	for _, secret := range []string{"OVERLOADED_NODE", "ROUND_ROBIN", "server-1", "burst"} {
		require.NotContains(t, told, secret)
	}
	format := sent["response_format"].(map[string]any)["json_schema"].(map[string]any)
	require.Equal(t, []any{"patterns", true}, []any{format["name"], format["strict"]})
}

func TestLabelsThatCantBeUsedAreHandedBack(t *testing.T) {
	gap := strings.Replace(goodPatterns, `"from":2,"to":4`, `"from":2,"to":3`, 1)
	m := serve(t, says(gap, "stop"), says(goodPatterns, "stop"))
	l, err := m.classify(t, twoSeries())
	require.NoError(t, err)
	require.Equal(t, "LSSSH", letters(l.States[0]))
	require.Len(t, l.Calls, 2)
	require.Equal(t, CallInvalidRules, l.Calls[0].Outcome)
	messages := m.requests[1]["messages"].([]any)
	require.Contains(t, messages[len(messages)-1].(map[string]any)["content"], "window 4 of series 1 is in none; it has 5 windows")

	m = serve(t, says("I can't do that.", "stop"))
	l, err = m.classify(t, twoSeries())
	require.ErrorContains(t, err, "no usable answer in 3 turns")
	require.Len(t, l.Calls, 3, "the calls are kept")
	require.Empty(t, l.States)

	m = serve(t, refuse(401, "no", ""))
	_, err = m.classify(t, twoSeries())
	require.ErrorContains(t, err, "check OPENAI_API_KEY")
}

func TestLabelsAreReadLenientlyAndTakenStrictly(t *testing.T) {
	shown := []int{5, 3}
	one := func(segment string) string {
		return strings.Replace(goodPatterns, `{"series":2,"from":1,"to":3,"state":"HIGH_STABLE"}`, segment, 1)
	}
	for name, text := range map[string]string{
		"as asked":         goodPatterns,
		"fenced":           "```json\n" + goodPatterns + "\n```",
		"prose around it":  "Here {you} are: " + goodPatterns + " Fine?",
		"lower-case names": strings.ToLower(goodPatterns),
		"names with space": strings.ReplaceAll(goodPatterns, "HIGH_STABLE", "high stable"),
		"in any order":     `{"segments":[{"series":2,"from":1,"to":3,"state":"HIGH_STABLE"},` + strings.TrimSuffix(strings.TrimPrefix(goodPatterns, `{"segments":[`), `,{"series":2,"from":1,"to":3,"state":"HIGH_STABLE"}]}`) + "]}",
	} {
		states, outcome, err := parsePatterns(text, shown)
		require.NoError(t, err, name)
		require.Equal(t, CallOK, outcome, name)
		require.Equal(t, "LSSSH HHH", letters(states[0])+" "+letters(states[1]), name)
	}
	for name, c := range map[string]struct{ text, why string }{
		"an unknown state":      {one(`{"series":2,"from":1,"to":3,"state":"CALM"}`), "/segments/3/state"},
		"a series too many":     {one(`{"series":3,"from":1,"to":3,"state":"SPIKE"}`), "windows 1 to 3 of series 3 are not there"},
		"a window too many":     {one(`{"series":2,"from":1,"to":4,"state":"SPIKE"}`), "windows 1 to 4 of series 2 are not there"},
		"window zero":           {one(`{"series":2,"from":0,"to":3,"state":"SPIKE"}`), "windows 0 to 3 of series 2 are not there"},
		"backwards":             {one(`{"series":2,"from":3,"to":1,"state":"SPIKE"}`), "windows 3 to 1 of series 2 are not there"},
		"twice":                 {one(`{"series":2,"from":1,"to":3,"state":"SPIKE"},{"series":2,"from":3,"to":3,"state":"SPIKE"}`), "window 3 of series 2 is in two"},
		"a text for a number":   {one(`{"series":2,"from":"one","to":3,"state":"SPIKE"}`), "/segments/3/from"},
		"a fraction":            {one(`{"series":2,"from":1.5,"to":3,"state":"SPIKE"}`), "/segments/3/from"},
		"a number beyond reach": {one(`{"series":2,"from":1,"to":1e308,"state":"SPIKE"}`), "a number is none"},
		"a huge exponent":       {one(`{"series":1e999999,"from":1,"to":3,"state":"SPIKE"}`), "the number 1e999999 has more than"},
		"a tiny exponent":       {one(`{"series":2,"from":1,"to":3E-999999,"state":"SPIKE"}`), "the number 3E-999999 has more than"},
		"a number of a line":    {one(`{"series":2,"from":1,"to":3` + strings.Repeat("0", 32) + `,"state":"SPIKE"}`), "has more than 32 characters"},
		"a key too many":        {one(`{"series":2,"from":1,"to":3,"state":"SPIKE","why":"so"}`), "/segments/3"},
		"no segments":           {`{"segments":[]}`, "window 1 of series 1 is in none"},
		"a rule set":            {good(), "/"},
		"nothing":               {"", "empty"},
	} {
		states, outcome, err := parsePatterns(c.text, shown)
		require.ErrorContains(t, err, c.why, name)
		require.NotEqual(t, CallOK, outcome, name)
		require.Nil(t, states, name)
	}
	many, _, err := parsePatterns(`{"segments":[`+strings.Repeat(`{"series":9,"from":1,"to":1,"state":"SPIKE"},`, 5000)+`{"series":9,"from":1,"to":1,"state":"SPIKE"}]}`, shown)
	require.Nil(t, many)
	require.Less(t, len(err.Error()), 4000)
}

func TestAModelIsShownWhatFits(t *testing.T) {
	long := make([]float64, 2000)
	for i := range long {
		long[i] = 80.123 + float64(i%7)
	}
	text, shown := patternText([][]traffic.Snapshot{rpsSeries(long...), rpsSeries(80, 80, 80)})
	require.LessOrEqual(t, Tokens(text), MaxTokens)
	require.Equal(t, 3, shown[1], "the longest gives way")
	require.Greater(t, shown[0], 20)
	var said struct {
		Series []struct{ Rows [][]any } `json:"series"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &said))
	require.Len(t, said.Series[0].Rows, shown[0])

	text, shown = patternText(nil)
	require.Equal(t, `{"series":[]}`, text)
	require.Empty(t, shown)
}

func FuzzParsePatterns(f *testing.F) {
	f.Add(goodPatterns)
	f.Add("```json\n" + goodPatterns)
	f.Add(`{"segments":{"series":1,"from":-1,"to":1e308,"state":"spike"}}`)
	f.Add(`{"segments":[null,[],{"series":1}],"segments":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		states, outcome, err := parsePatterns(text, []int{5, 3})
		require.Equal(t, err == nil, outcome == CallOK)
		if err != nil {
			require.Nil(t, states)
			return
		}
		for i, n := range []int{5, 3} {
			require.Len(t, states[i], n)
			for _, s := range states[i] {
				require.True(t, s.Known(), s)
			}
		}
	})
}
