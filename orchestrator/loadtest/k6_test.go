package loadtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChooseSaysWhichDriverItTookAndWhy(t *testing.T) {
	none := t.TempDir()
	t.Setenv("PATH", none)
	good := standInK6(t, "version:k6_v1.8.1_(go1.26.8,_linux/amd64)")
	two := standInK6(t, "version:k6_v2.2.0_(commit/abc,_go1.27.0,_linux/amd64)")
	old := standInK6(t, "version:k6_v0.57.0_(go1.23.6,_linux/amd64)")
	other := standInK6(t, "version:kubectl_1.2")
	data := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(data, "bin"), 0o700))
	require.NoError(t, os.Rename(standInK6(t, "version:k6_v1.0.0"), filepath.Join(data, "bin", "k6")))
	for name, c := range map[string]struct {
		driver  Driver
		config  Config
		want    Driver
		version string
		why     string // or the error
	}{
		"auto takes the k6 that is named":            {Auto, Config{K6: good, DataDir: data}, K6, "v1.8.1", "(RETUNE_K6)"},
		"auto takes the data directory's":            {Auto, Config{DataDir: data}, K6, "v1.0.0", "(the data directory)"},
		"version 2 is as good":                       {K6, Config{K6: two}, K6, "v2.2.0", "v2.2.0"},
		"auto without any takes the built-in one":    {Auto, Config{}, Builtin, "vegeta", "none on PATH"},
		"a named one that is too old is an error":    {Auto, Config{K6: old}, "", "", "1.0 is the oldest"},
		"a named one that is missing is an error":    {Auto, Config{K6: none + "/k6"}, "", "", "RETUNE_K6 names"},
		"a named one that is no k6 is an error":      {K6, Config{K6: other}, "", "", "does not answer like k6"},
		"k6 without any is an error":                 {K6, Config{}, "", "", "none on PATH"},
		"builtin is taken when asked for":            {Builtin, Config{K6: good}, Builtin, "vegeta", "as asked for"},
		"an unknown driver is refused with the list": {"jmeter", Config{}, "", "", "auto, k6 and builtin"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Choose(t.Context(), c.driver, c.config)
			if c.want == "" {
				require.ErrorContains(t, err, c.why)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, r.Driver)
			require.Contains(t, r.Version, c.version)
			require.Contains(t, r.Why, c.why)
		})
	}
}

func TestK6IsStartedWithThisCommandLineAndNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("K6_VUS", "7")
	s := scenarioFor(fixtureShape())
	s.Seed, s.Warm = 1<<32|7, 1500*time.Millisecond
	r, err := standInRunner(t, "args").Run(t.Context(), s, nil)
	require.NoError(t, err)
	require.Len(t, r.Log, 2)
	dir, _, _ := strings.Cut(r.Log[0][strings.Index(r.Log[0], "--config ")+9:], "/k6-config.json")
	require.Equal(t, "run --quiet --no-color --address= --no-usage-report --config DIR/k6-config.json --summary-mode=disabled --no-thresholds "+
		"--log-format=json --system-tags=status,error_code,expected_response,scenario,name --out json=- "+
		"-e TARGET=http://127.0.0.1:1 -e CONTROLS=null -e WARM=1.5s -e TIMEOUT=200ms -e SEED=6 -e SHAPE=DIR/_shape.json DIR/steady.js",
		strings.ReplaceAll(r.Log[0], dir, "DIR"))
	for _, want := range []string{"K6_NO_USAGE_REPORT=true", "K6_AUTO_EXTENSION_RESOLUTION=false", "NO_PROXY=*", "HOME=" + dir} {
		require.Contains(t, r.Log[1], want)
	}
	require.NotContains(t, r.Log[1], "K6_VUS")
	require.NoDirExists(t, dir)
}

func TestAScriptThatK6RefusesIsAnError(t *testing.T) {
	_, err := standInRunner(t, "refused").Run(t.Context(), scenarioFor(fixtureShape()), nil)
	require.ErrorContains(t, err, "SyntaxError: unexpected token")
}

func TestAScriptOfTheUsersOwnBringsItsPlan(t *testing.T) {
	script := filepath.Join(t.TempDir(), "mine.js")
	require.NoError(t, os.WriteFile(script, []byte(`import http from 'k6/http';`), 0o600))
	s := scenarioFor(Shape{Name: "mine"})
	s.Script = script
	r, err := standInRunner(t, "exit:0").Run(t.Context(), s, nil)
	require.NoError(t, err)
	require.EqualValues(t, 130, r.Planned)
	require.Empty(t, r.Invalid)

	_, err = (&Runner{Driver: Builtin, program: builtin{"x"}}).Run(t.Context(), s, nil)
	require.ErrorContains(t, err, "needs the k6 driver")
}

func TestPlansAreReadFromInspect(t *testing.T) {
	s := Scenario{Shape: Shape{Name: "mine"}}
	require.NoError(t, adoptPlan(&s, []byte(`{"scenarios":{"warm":{"executor":"constant-vus"},"main":{"executor":"ramping-arrival-rate","startRate":60,"timeUnit":"1m0s",
		"startTime":"10s","stages":[{"target":60,"duration":"10s"},{"target":240,"duration":"0s"},{"target":240,"duration":"10s"}]}}}`)))
	require.EqualValues(t, 10+40, s.Shape.Planned())
	require.Equal(t, 20*time.Second, s.Shape.Duration())
	require.Equal(t, 10*time.Second, s.Warm)
	require.ErrorContains(t, adoptPlan(&s, []byte(`{"scenarios":{"default":{}}}`)), "no scenario called main")
	require.Error(t, adoptPlan(&s, []byte(`no`)))
}

func TestScriptsThatFetchAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("ok.js", `import http from "k6/http"; import { a } from './more.js'; const x = open('./data.json');`)
	write("more.js", `export * from "./ok.js"`)
	require.NoError(t, checkScript(filepath.Join(dir, "ok.js")))
	write("far.js", "import x from 'https://jslib.example/x.js'")
	for name, text := range map[string]string{
		"url":       `import {x} from "https://example.org/x.js"`,
		"bare":      `import "http://example.org/x.js"`,
		"extension": `import sql from 'k6/x/sql';`,
		"require":   `const x = require("k6/x/exec")`,
		"dynamic":   "await import(`https://example.org/x.js`)",
		"open":      `const d = open('https://example.org/data.json')`,
		"indirect":  `import "./far.js"`,
		"missing":   `import "./none.js"`,
	} {
		require.Error(t, checkScript(write(name+".js", text)), name)
	}
}
