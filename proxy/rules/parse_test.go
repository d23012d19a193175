package rules

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// published is the design's example rule file.
func published(t testing.TB) []byte {
	b, err := os.ReadFile("testdata/published.yml")
	require.NoError(t, err)
	return b
}

func TestParseReadsThePublishedExample(t *testing.T) {
	r, err := Parse("decision-rules.yml", published(t))
	require.NoError(t, err)
	want := Default()
	want.Version, want.Parent, want.Origin = 9, 8, OriginLLM
	for s, rule := range want.Rules {
		rule.Reason = "…"
		want.Rules[s] = rule
	}
	require.Empty(t, cmp.Diff(want, r))
	require.True(t, Same(Default(), r))
}

// faultLines parses, and wants faults.
func faultLines(t testing.TB, yaml string) []string {
	t.Helper()
	r, err := Parse("f.yml", []byte(yaml))
	var f *Faults
	require.ErrorAs(t, err, &f)
	require.Empty(t, cmp.Diff(RuleSet{}, r), "nothing of a refused file gets out")
	return f.Lines()
}

func TestEveryFaultInOneGo(t *testing.T) {
	b, err := os.ReadFile("testdata/faults.yml")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/faults.txt")
	require.NoError(t, err)
	got := strings.Join(faultLines(t, string(b)), "\n") + "\n"
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/faults.txt", []byte(got), 0o644))
	}
	require.Empty(t, cmp.Diff(string(want), got))
	crlf := strings.Join(faultLines(t, strings.ReplaceAll(string(b), "\n", "\r\n")), "\n") + "\n"
	require.Empty(t, cmp.Diff(got, crlf), "as browsers and Windows end lines")
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":        {"min_confidence:", "min_confidance:", `f.yml:14:3: unknown key "min_confidance" in switching; did you mean min_confidence?`},
		"missing key":        {"  cooldown: 10s\n", "", `f.yml:13:1: switching has no key "cooldown"; add it`},
		"missing state":      {"  SPIKE: ", "  # SPIKE: ", `f.yml:19:1: rules has no key "SPIKE"; add it`},
		"unknown state":      {"  SPIKE: ", "  SPKE: ", `f.yml:23:3: unknown key "SPKE" in rules; did you mean SPIKE?`},
		"duplicate key":      {"  cooldown: 10s\n", "  cooldown: 10s\n  cooldown: 20s\n", `f.yml:16:3: duplicate key "cooldown", first on line 15; keep one of the two`},
		"unknown algorithm":  {"LEAST_CONNECTIONS,          ", "LEAST_CONECTIONS,           ", `f.yml:23:34: unknown algorithm "LEAST_CONECTIONS"; did you mean LEAST_CONNECTIONS?`},
		"nonsense algorithm": {"LEAST_CONNECTIONS,          ", "BY_THE_STARS_TONIGHT_MAYBE, ", `f.yml:23:34: unknown algorithm "BY_THE_STARS_TONIGHT_MAYBE"; want one of ROUND_ROBIN, WEIGHTED_ROUND_ROBIN,`},
		"unknown origin":     {"origin: llm", "origin: gpt", `f.yml:3:9: unknown origin "gpt"; want one of llm, local, human`},
		"wrong type":         {"spike_rate: 1.00", "spike_rate: fast", `f.yml:8:15: spike_rate is the text "fast"; want a number from 0.01 to 100`},
		"a quoted number":    {"spike_rate: 1.00", "spike_rate: '1.00'", `f.yml:8:15: spike_rate is the text "1.00"; want a number from 0.01 to 100`},
		"hexadecimal":        {"version: 9", "version: 0x10", `f.yml:1:10: version is "0x10"; want a whole number from 1 to 1000000000`},
		"a fraction":         {"version: 9", "version: 9.5", `f.yml:1:10: version is "9.5"; want a whole number`},
		"a huge number":      {"version: 9", "version: 99999999999999999999", `f.yml:1:10: version is out of range: 99999999999999999999; want a whole number`},
		"NaN":                {"spike_rate: 1.00", "spike_rate: .nan", `f.yml:8:15: spike_rate is not a number (NaN); want a number from`},
		"a NaN as a word":    {"spike_rate: 1.00", "spike_rate: NaN", `f.yml:8:15: spike_rate is not a number (NaN); want a number from`},
		"infinity":           {"spike_rate: 1.00", "spike_rate: .inf", `f.yml:8:15: spike_rate is infinite; want a number from`},
		"too large":          {"spike_rate: 1.00", "spike_rate: 1e308", `f.yml:8:15: spike_rate is out of range: 1e308; want a number from 0.01 to 100`},
		"no unit":            {"cooldown: 10s", "cooldown: 10", `f.yml:15:13: cooldown is "10"; want a duration from 0s to 10m, with its unit, e.g. 10s or 500ms`},
		"negative":           {"cooldown: 10s", "cooldown: -10s", `f.yml:15:13: cooldown is out of range: -10s; want a duration from 0s to 10m`},
		"empty value":        {"cooldown: 10s", "cooldown:", `f.yml:15:3: cooldown is empty; want a duration from`},
		"a list":             {"cooldown: 10s", "cooldown: [10s]", `f.yml:15:13: cooldown is a list; want a duration from`},
		"a mapping":          {"cooldown: 10s", "cooldown: {a: 1}", `f.yml:15:13: cooldown is a mapping; want a duration from`},
		"not a mapping":      {"detection:                       # the thresholds", "detection: 3\nmore:", `detection is "3"; want keys and values`},
		"parent too high":    {"parent: 8", "parent: 9", `f.yml:2:1: parent 9 of version 9; a lower number than version, or 0 for none`},
		"anchor":             {"cooldown: 10s", "cooldown: &a 10s", `f.yml:15:13: anchor "&" is not allowed; write the value out`},
		"alias":              {"cooldown: 10s", "cooldown: *a", `f.yml:15:13: alias "*" is not allowed; write the value out`},
		"merge key":          {"cooldown: 10s", "cooldown: 10s\n  <<: {a: 1}", `f.yml:16:3: merge key "<<" is not allowed; write the keys out`},
		"tag":                {"cooldown: 10s", "cooldown: !!str 10s", `f.yml:15:13: tag "!!str" is not allowed; write the value without it`},
		"second document":    {"version: 9", "---\nversion: 9", `f.yml:1:1: document marker "---" is not allowed; a rule file is one document without markers`},
		"directive":          {"version: 9", "%YAML 1.2\nversion: 9", `f.yml:1:1: directive "%" is not allowed; remove it`},
		"complex key":        {"version: 9", "? version\n: 9", `f.yml:1:1: complex key "?" is not allowed; write it as key: value`},
		"not UTF-8":          {"…", "\xff", "f.yml:10:59: byte 0xff is not UTF-8; save the file as UTF-8"},
		"byte order mark":    {"version: 9", "\uFEFFversion: 9", `f.yml:1:1: the file starts with a byte order mark; save it as UTF-8 without one`},
		"NUL":                {"version: 9", "version: 9\x00", `f.yml:1:11: NUL byte; remove it`},
		"unclosed":           {"…\" }", "… }", "not valid YAML"},
		"decay elsewhere":    {"ROUND_ROBIN,                reason: \"…\"", "ROUND_ROBIN, params: {decay: 5s}, reason: \"…\"", `rules.LOW_TRAFFIC.params.decay`},
	} {
		t.Run(name, func(t *testing.T) {
			src := strings.Replace(string(published(t)), c.old, c.new, 1)
			require.NotEqual(t, string(published(t)), src, "the test changes something")
			if name == "decay elsewhere" {
				_, err := Parse("f.yml", []byte(src))
				var f *Faults
				require.ErrorAs(t, err, &f)
				require.Equal(t, c.want, f.List[0].Path)
				return
			}
			require.Contains(t, strings.Join(faultLines(t, src), "\n"), c.want)
		})
	}
}

func TestFaultQuotesItsLine(t *testing.T) {
	_, err := Parse("f.yml", []byte(strings.Replace(string(published(t)), "spike_rate: 1.00", "spike_rate: fast   # too", 1)))
	var f *Faults
	require.ErrorAs(t, err, &f)
	require.Equal(t, []Fault{{
		Line: 8, Column: 15, Path: "detection.spike_rate", Text: `spike_rate is the text "fast"`,
		Excerpt: "spike_rate: fast   # too", Fix: "want a number from 0.01 to 100",
	}}, f.List)
}

func TestEmptyAndOversizedFiles(t *testing.T) {
	for _, s := range []string{"", "\n", "# a comment\n"} {
		require.Equal(t, []string{"f.yml:1:1: the file is empty; a rule file starts with version: 1"}, faultLines(t, s))
	}
	require.Equal(t, []string{"f.yml:1:1: the file is too large; at most 65536 bytes"}, faultLines(t, strings.Repeat("#", MaxSize+1)))
	require.Contains(t, faultLines(t, "hello"), `f.yml:1:1: the file is the text "hello"; want keys and values`)
}

// Deep nesting took the YAML library 672 MB before it was refused.
func TestDeepNestingEatsNoMemory(t *testing.T) {
	for name, s := range map[string]string{
		"brackets":  strings.Repeat("[", MaxSize),
		"braces":    strings.Repeat("{a: ", MaxSize/4),
		"dashes":    strings.Repeat("- ", MaxSize/2),
		"questions": strings.Repeat("? ", MaxSize/2),
		"stairs":    stairs(MaxSize),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("f.yml", []byte(s))
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}

// stairs is mappings nested by indentation.
func stairs(size int) string {
	var b strings.Builder
	for i := 0; ; i++ {
		line := strings.Repeat(" ", i) + "a:\n"
		if b.Len()+len(line) > size {
			return b.String()
		}
		b.WriteString(line)
	}
}

// anyRuleSet draws a valid rule set.
func anyRuleSet(t *rapid.T) RuleSet {
	number := func(name string, lo, hi float64) float64 { return rapid.Float64Range(lo, hi).Draw(t, name) }
	whole := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	span := func(name string, lo, hi time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(lo), int64(hi)).Draw(t, name))
	}
	r := RuleSet{
		Version: whole("version", 1, maxVersion),
		Origin:  rapid.SampledFrom([]Origin{OriginHuman, OriginLLM, OriginLocal}).Draw(t, "origin"),
		Detection: traffic.Detection{
			Window:                span("window", time.Second, 5*time.Minute),
			LowTrafficRPS:         number("low", 0, 1e6),
			GradualIncreaseRate:   number("gradual", 0.01, 100),
			SpikeRate:             number("spike", 0.01, 100),
			OverloadErrorRate:     number("error rate", 0.001, 1),
			OverloadLatency:       span("latency", time.Millisecond, 5*time.Minute),
			OverloadLatencyFactor: number("factor", 1, 100),
			LatencySlopeWindows:   whole("slope", 3, 60),
		},
		Switching: Switching{
			MinConfidence:         number("confidence", 0, 0.99),
			Cooldown:              span("cooldown", 0, 10*time.Minute),
			MaxSwitchesPerMinute:  whole("switches", 1, 60),
			SustainedWindows:      whole("sustained", 1, 20),
			SpikeSustainedWindows: whole("spike sustained", 1, 20),
		},
		Rules: map[traffic.State]Rule{},
	}
	r.Parent = whole("parent", 0, r.Version-1)
	for _, s := range traffic.States() {
		rule := Rule{
			Algorithm: rapid.SampledFrom(balance.Algorithms()).Draw(t, "algorithm"),
			Reason:    rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab \"'\\\n\r\t:#{}[],&*!|>%@`-?~\x00\x1b\x7f\u0085\u2028\uFEFF😀é")))).Draw(t, "reason"),
		}
		if rule.Algorithm == balance.P2CPeakEWMA && rapid.Bool().Draw(t, "tuned") {
			rule.Params.Decay = span("decay", 100*time.Millisecond, 10*time.Minute)
		}
		r.Rules[s] = rule
	}
	return r
}

func TestRenderThenParseIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRuleSet(t)
		b := Render(want)
		got, err := Parse("f.yml", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s\n%s", d, b)
		}
		if d := cmp.Diff(string(b), string(Render(got))); d != "" {
			t.Fatal(d)
		}
	})
}

func TestReasonsSurvive(t *testing.T) {
	for _, reason := range []string{
		`p95 "35%" lower: # not a comment`, "two\nlines", "  leading and trailing  ", `back\slash`, "'single'", "tab\there",
		"- dash", "null", "true", "1.5", "", "{flow: [x]}", "日本語 😀", "\u2028\u0085\x7f", "---", "100% of it", "a: b", "\r\n",
	} {
		r := Default()
		r.Rules[traffic.Spike] = Rule{Algorithm: balance.Random, Reason: reason}
		got, err := Parse("f.yml", Render(r))
		require.NoError(t, err, "%q", reason)
		require.Equal(t, reason, got.Rules[traffic.Spike].Reason)
	}
}

func TestRenderIsGolden(t *testing.T) {
	r := Default()
	r.Rules[traffic.Spike] = Rule{Algorithm: balance.P2CPeakEWMA, Reason: `p95 "35%" lower`, Params: Params{Decay: 5 * time.Second}}
	got := Render(r)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/rendered.yml", got, 0o644))
	}
	want, err := os.ReadFile("testdata/rendered.yml")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(got)))
}

func TestRenderOfNonsenseIsRefused(t *testing.T) {
	r := Default()
	r.Detection.SpikeRate /= 0 * r.Detection.SpikeRate // +Inf
	r.Switching.SustainedWindows = 0
	delete(r.Rules, traffic.Spike)
	_, err := Parse("f.yml", Render(r))
	var f *Faults
	require.ErrorAs(t, err, &f)
	require.Len(t, f.List, 3, f.Error())
}

func TestDefaultsAreValidAndClean(t *testing.T) {
	for name, r := range map[string]RuleSet{"default": Default(), "safe": Safe()} {
		got, err := Parse(name, Render(r))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(r, got))
	}
	require.Empty(t, Lint(Default()))
	for _, rule := range Safe().Rules {
		require.Equal(t, balance.RoundRobin, rule.Algorithm)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(published(f))
	f.Add(Render(Safe()))
	broken, err := os.ReadFile("testdata/faults.yml")
	require.NoError(f, err)
	f.Add(broken)
	for _, s := range []string{"", "a", "a: &x [*x]", "? - a", "{", "\"\\xZZ\"", "%", "---\n...\n", "a: |\n  b", "- - - -", "a: !!t\n<<:", "version: 1\r\nparent: 0\r\n", "\xff", "a:\n\t b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("f.yml", b)
		var faults *Faults
		if errors.As(err, &faults) {
			for _, x := range faults.List {
				if x.Line < 1 || x.Column < 1 || x.Text == "" {
					t.Fatalf("a fault without a place or text: %+v", x)
				}
			}
			return
		}
		if err != nil {
			t.Fatalf("not a *Faults: %v", err)
		}
		again, err := Parse("f.yml", Render(r))
		if err != nil {
			t.Fatal(fmt.Errorf("what was accepted is refused when rendered: %w", err))
		}
		if d := cmp.Diff(r, again); d != "" {
			t.Fatal(d)
		}
	})
}
