package loadtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestEveryFaultOfAShapeIsNamed(t *testing.T) {
	_, err := ParseShape([]byte(`{
		"name": "Bad Name",
		"phases": [
			{ "name": "", "duration": "-1s", "from": 1.5, "to": -2 },
			{ "name": "x", "duration": "1s", "from": 1, "to": 1e9 }
		],
		"events": [
			{ "at": "10m", "action": "explode", "backend": "" },
			{ "at": "0s", "action": "slowdown", "backend": "a", "value": 0.5 },
			{ "at": "0s", "action": "error_rate", "backend": "a", "value": 2 },
			{ "at": "0s", "action": "fail", "backend": "a", "value": 1 }
		],
		"closed": { "users": 0, "think": "-1s", "duration": "0s" },
		"path": "x",
		"colour": "red"
	}`))
	for _, want := range []string{
		`line 15: json: unknown field "colour"`, `name: "Bad Name"`, "description: missing", "clients: 0", `path: "x"`, "either phases or closed",
		"phases[0].name", "phases[0].duration: -1s", "phases[0].from: 1.5", "phases[0].to: -2", "phases[1].to: 1e+09",
		"events[0].at: 10m0s", `events[0].action: "explode"`, "events[0].backend", "events[1].value: 0.5", "events[2].value: 2", "events[3].value: 1",
		"closed.users: 0", "closed.think: -1s", "closed.duration: 0s",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestAShapeThatIsNoShapeIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "EOF",
		"{\n\"name\": \"x\",\n}":              "line 3: invalid character",
		"{\n\"clients\": \"many\"}":           "line 2: json: cannot unmarshal string",
		"{\"phases\":[{\"duration\":\"x\"}]}": "invalid duration",
		"{} {}":                               "more after",
		strings.Repeat(" ", maxShape+1):       "larger than",
		`{"name":"x","description":"d","clients":1,"phases":[{"name":"a","duration":"1s","from":0,"to":0}]}`:            "every rate is 0",
		`{"name":"x","description":"d","clients":1,"phases":[{"name":"a","duration":"24h","from":100000,"to":100000}]}`: "8640000000 requests in all",
	} {
		_, err := ParseShape([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestOwnScenariosComeFromADirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const rest = `,"description":"d","clients":1,"phases":[{"name":"a","duration":"1s","from":1,"to":1}]}`
	write("both.json", `{"name":"both"`+rest)
	write("both.js", "")
	write("shape.json", `{"name":"shape"`+rest)
	write("script.js", "")
	write("README.md", "")
	all, err := LoadDir(dir)
	require.NoError(t, err)
	got := map[string]string{}
	for _, s := range all {
		got[s.Shape.Name] = strings.Trim(filepath.Base(s.Script)+" "+s.Shape.Duration().String(), ". ")
	}
	require.Empty(t, cmp.Diff(map[string]string{"both": "both.js 1s", "shape": "1s", "script": "script.js 0s"}, got))

	write("burst.json", `{"name":"burst"`+rest)
	write("other.json", `{"name":"another"`+rest)
	write("broken.json", "{")
	_, err = LoadDir(dir)
	require.ErrorContains(t, err, "burst.json: a bundled scenario has this name")
	require.ErrorContains(t, err, `other.json: name: "another", but the file's name says "other"`)
	require.ErrorContains(t, err, "broken.json: ")
	_, err = Load("nothing")
	require.ErrorContains(t, err, "steady, burst, gradual, failure, sawtooth, reference")
}

func TestAShapeKnowsItsRate(t *testing.T) {
	s := Shape{Phases: []Phase{{Name: "ramp", Duration: Duration(10 * time.Second), From: 10, To: 30}, {Name: "step", Duration: Duration(10 * time.Second), From: 90, To: 90}}}
	for at, want := range map[time.Duration]float64{-1: 0, 0: 10, 5 * time.Second: 20, 10 * time.Second: 90, 20*time.Second - 1: 90, 20 * time.Second: 0} {
		require.InDelta(t, want, s.Rate(at), 1e-6, at.String())
	}
	require.Equal(t, 90.0, s.Peak())
	require.EqualValues(t, 200+900, s.Planned())
	quick := s.Scaled(Quick)
	require.EqualValues(t, 40+180, quick.Planned())
	require.Equal(t, 20*time.Second, s.Duration(), "the original is untouched")
}

// FuzzParseShape: a shape that is taken can be written and read again.
func FuzzParseShape(f *testing.F) {
	for _, name := range []string{"burst", "failure", "gradual", "steady"} {
		b, err := os.ReadFile("../../k6/" + name + ".json")
		require.NoError(f, err)
		f.Add(b)
	}
	for _, s := range []string{"", "{}", "[]", `{"phases":[{"rate":1e308,"duration":"1s"}]}`, `{"phases":[{"rate":-1,"duration":"-1s"}]}`, `{"events":[{"at":"9999999h"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseShape(b)
		if err != nil {
			return
		}
		text, err := json.Marshal(s)
		require.NoError(t, err)
		again, err := ParseShape(text)
		require.NoError(t, err, "%s", text)
		same, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(text), string(same))
	})
}
