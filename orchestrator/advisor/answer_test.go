package advisor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// goodAnswer changes SPIKE and one threshold.
func goodAnswer() map[string]any {
	var list []any
	for _, s := range traffic.States() {
		a := rules.Default().Rules[s].Algorithm
		if s == traffic.Spike {
			a = balance.P2CPeakEWMA
		}
		list = append(list, map[string]any{"state": string(s), "algorithm": string(a), "reason": "p95 in burst 655 ms", "decay": ""})
	}
	return map[string]any{
		"summary": "Two choices in bursts.",
		"rules":   list,
		"thresholds": []any{
			map[string]any{"path": "detection.spike_rate", "value": "0.8", "reason": "rps in burst 140"},
		},
	}
}

func good() string { return spoiled(func(map[string]any) {}) }

func spoiled(change func(a map[string]any)) string {
	a := goodAnswer()
	change(a)
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func rule(a map[string]any, i int) map[string]any { return a["rules"].([]any)[i].(map[string]any) }

// parsed goes all the way from a model's text to a valid rule set.
func parsed(text string) (rules.RuleSet, answer, error) {
	a, _, err := parseAnswer(text)
	if err != nil {
		return rules.RuleSet{}, a, err
	}
	r, err := a.apply(rules.Default())
	return r, a, err
}

func TestWhatIsMeantPlainlyIsUnderstood(t *testing.T) {
	for name, text := range map[string]string{
		"as asked":              good(),
		"fenced":                "```json\n" + good() + "\n```",
		"prose on both sides":   "Sure! Given {burst} this is best:\n" + good() + "\nI hope {this} helps.",
		"byte order mark":       "\ufeff" + good(),
		"a list of one":         "[" + good() + "]",
		"lower-case names":      spoiled(func(a map[string]any) { rule(a, 3)["state"], rule(a, 3)["algorithm"] = "spike", "p2c peak-ewma" }),
		"a scalar for a list":   spoiled(func(a map[string]any) { a["thresholds"] = a["thresholds"].([]any)[0] }),
		"rules keyed by state":  spoiled(func(a map[string]any) { a["rules"] = keyed(a["rules"].([]any)) }),
		"a list for a text":     spoiled(func(a map[string]any) { a["summary"] = []string{"Two choices", "in bursts."} }),
		"reasons in a list":     spoiled(func(a map[string]any) { rule(a, 3)["reason"] = []string{"p95 in burst", "655 ms"} }),
		"a number for its text": spoiled(func(a map[string]any) { a["thresholds"].([]any)[0].(map[string]any)["value"] = 0.8 }),
		"no decay":              spoiled(func(a map[string]any) { delete(rule(a, 3), "decay") }),
	} {
		r, a, err := parsed(text)
		require.NoError(t, err, name)
		require.Equal(t, []string{"SPIKE: LEAST_CONNECTIONS → P2C_PEAK_EWMA", "detection.spike_rate: 1 → 0.8"}, Changes(rules.Default(), r), name)
		require.Equal(t, "p95 in burst 655 ms", r.Rules[traffic.Spike].Reason, name)
		require.Equal(t, "Two choices in bursts.", a.Summary, name)
		require.Len(t, a.reasons(rules.Default()), 6, name)
	}
}

func keyed(list []any) map[string]any {
	out := map[string]any{}
	for _, r := range list {
		rule := r.(map[string]any)
		out[strings.ToLower(rule["state"].(string))] = rule
		delete(rule, "state")
	}
	return out
}

// The system that this one follows crashed on a scalar where the model should have sent a list.
func TestAScalarWhereAListBelongsIsNoCrash(t *testing.T) {
	for _, scalar := range []any{"HIGH_STABLE", 7, true, nil, map[string]any{"state": "SPIKE"}, [][]string{{"SPIKE"}}} {
		for _, key := range []string{"rules", "thresholds", "summary"} {
			text := spoiled(func(a map[string]any) { a[key] = scalar })
			_, _, err := parsed(text)
			if key == "rules" {
				require.Error(t, err, "%v", scalar)
			}
		}
	}
}

func TestWhatIsWrongIsSaidExactly(t *testing.T) {
	set := func(path, value string) string {
		return spoiled(func(a map[string]any) {
			a["thresholds"] = []any{map[string]any{"path": path, "value": value, "reason": "r 1"}}
		})
	}
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"empty":               {"  \n", "the answer is empty"},
		"prose":               {"I would rather not.", "the answer holds no JSON object"},
		"HTML":                {"<!doctype html><html>502 Bad Gateway</html>", "HTML or XML, not JSON"},
		"truncated":           {good()[:200], "it ends before it is complete"},
		"NaN":                 {`{"summary": NaN, "rules": []}`, "no valid JSON"},
		"5 MB":                {`{"summary": "` + strings.Repeat("x", 5<<20) + `"}`, "at most 262144"},
		"nested without end":  {strings.Repeat(`{"rules":`, 5000), "nested deeper than 12"},
		"a key twice":         {`{"summary": "a", "summary": "b", "rules": []}`, `the key "summary" stands twice`},
		"unknown key":         {spoiled(func(a map[string]any) { a["weights"] = 1 }), "additional properties 'weights' not allowed"},
		"unknown algorithm":   {spoiled(func(a map[string]any) { rule(a, 0)["algorithm"] = "magic" }), "/rules/0/algorithm: value must be one of"},
		"unknown state":       {spoiled(func(a map[string]any) { rule(a, 1)["state"] = "STORM" }), "/rules/1/state: value must be one of"},
		"unknown threshold":   {set("detection.magic", "1"), "/thresholds/0/path: value must be one of"},
		"missing state":       {spoiled(func(a map[string]any) { a["rules"] = a["rules"].([]any)[:4] }), "OVERLOADED_NODE is missing"},
		"no rules at all":     {`{"summary": "none"}`, "LOW_TRAFFIC is missing"},
		"duplicate state":     {spoiled(func(a map[string]any) { rule(a, 0)["state"] = "SPIKE" }), "SPIKE stands there more than once"},
		"duplicate threshold": {spoiled(func(a map[string]any) { l := a["thresholds"].([]any); a["thresholds"] = append(l, l[0]) }), "detection.spike_rate stands there more than once"},
		"no reason":           {spoiled(func(a map[string]any) { rule(a, 0)["reason"] = " " }), "rules.LOW_TRAFFIC: the reason is empty"},
		"reason of a novel":   {spoiled(func(a map[string]any) { rule(a, 0)["reason"] = strings.Repeat("x", 700) }), "has 700 characters"},
		"200 rules": {spoiled(func(a map[string]any) {
			for range 195 {
				a["rules"] = append(a["rules"].([]any), a["rules"].([]any)[0])
			}
		}), "200 of them, want 5"},
		"200 wrong rules": {spoiled(func(a map[string]any) {
			var l []any
			for i := range 200 {
				l = append(l, i)
			}
			a["rules"] = l
		}), "and more of the same"},
		"text for a number":       {set("detection.spike_rate", "high"), `detection.spike_rate: "high" is no number`},
		"NaN for a number":        {set("detection.spike_rate", "NaN"), "spike_rate"},
		"1e308":                   {set("detection.low_traffic_rps", "1e308"), "low_traffic_rps"},
		"1e999999, a number":      {spoiled(func(a map[string]any) { a["summary"] = json.Number("1e999999") }), "the number 1e999999 has more than"},
		"-1":                      {set("switching.min_confidence", "-1"), "min_confidence"},
		"-1 windows":              {set("switching.sustained_windows", "-1"), "sustained_windows"},
		"a number for a duration": {set("switching.cooldown", "10"), `"10" is no duration such as`},
		"a share of a window":     {set("switching.sustained_windows", "1.5"), "is no whole number"},
		"decay of another":        {spoiled(func(a map[string]any) { rule(a, 0)["decay"] = "5s" }), "has no decay"},
		"decay of no length":      {spoiled(func(a map[string]any) { rule(a, 3)["decay"] = "soon" }), `rules.SPIKE.decay: "soon" is no duration`},
		"decay out of range":      {spoiled(func(a map[string]any) { rule(a, 3)["decay"] = "1ns" }), "decay"},
	} {
		_, _, err := parsed(c.text)
		require.ErrorContains(t, err, c.want, name)
		var wrong faults
		require.ErrorAs(t, err, &wrong, name)
		require.Less(t, len(err.Error()), 16<<10, name)
	}
}

func TestDecayIsSet(t *testing.T) {
	r, _, err := parsed(spoiled(func(a map[string]any) { rule(a, 3)["decay"] = "5s" }))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, r.Rules[traffic.Spike].Params.Decay)
}

// Strict structured output takes a subset of JSON schema.
func TestTheSchemaIsWhatStrictOutputTakes(t *testing.T) {
	var s map[string]any
	require.NoError(t, json.Unmarshal(schemaJSON(), &s))
	require.NotContains(t, s, "$schema")
	require.NotContains(t, s, "$ref")
	var check func(path string, s map[string]any)
	check = func(path string, s map[string]any) {
		if items, is := s["items"].(map[string]any); is {
			check(path+"[]", items)
		}
		properties, is := s["properties"].(map[string]any)
		if !is {
			return
		}
		require.Equal(t, false, s["additionalProperties"], path)
		require.Len(t, s["required"], len(properties), path)
		for name, p := range properties {
			check(path+"."+name, p.(map[string]any))
		}
	}
	check("", s)
	for _, want := range append(anyOf(balance.Algorithms()), anyOf(traffic.States())...) {
		require.Contains(t, string(schemaJSON()), fmt.Sprintf("%q", want))
	}
}

// holds fails unless a text is refused, or its rule set passes the rule file's own reading.
func holds(t *testing.T, text string) {
	r, _, err := parsed(text)
	if err != nil {
		return
	}
	r.Version = 2
	again, err := rules.Parse("answer", rules.Render(r))
	if err != nil || !rules.Same(r, again) {
		t.Fatalf("%q was taken, and its rule set is none: %v", text, err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(good())
	f.Add("```json\n" + good() + "\n```")
	f.Add(`{"rules":{"spike":{"algorithm":"random"}},"thresholds":{"path":1}}`)
	f.Add(`{"rules":[[{}]],"summary":[1,"a"]}`)
	f.Fuzz(holds)
}

// The same, over a few thousand damaged answers at each run of the tests.
func TestDamagedAnswersAreRefusedOrWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := []byte(good())
		for range 1 + r.IntN(4) {
			i, j := r.IntN(len(b)), r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = byte(r.IntN(256))
			case 1:
				b[i] = `{}[]",:-`[r.IntN(8)]
			case 2: // a part is lost, or stands there twice
				b = append(slices.Clone(b[:i]), b[j:]...)
			}
			b = append(b, '\n')
		}
		holds(t, string(b))
	}
}
