package ruleversions

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"pgregory.net/rapid"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// golden compares with a file; UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got))
}

func version(n int, change func(*rules.RuleSet)) Version {
	r := rules.Default()
	r.Version, r.Parent = n, n-1
	if change != nil {
		change(&r)
	}
	b := rules.Render(r)
	return Version{Number: n, Parent: n - 1, Origin: r.Origin, Rules: r, YAML: string(b), Hash: rules.Sum(b)}
}

// proposal is v2: two rules, a threshold and a gate changed, one of them without a reason.
func proposal() Version {
	v := version(2, func(r *rules.RuleSet) {
		r.Origin = rules.OriginLLM
		r.Detection.SpikeRate = 0.8
		r.Switching.Cooldown = 6 * time.Second
		r.Rules[traffic.Spike] = rules.Rule{
			Algorithm: balance.P2CPeakEWMA, Params: rules.Params{Decay: 5 * time.Second},
			Reason: `burst: p95 610 ms → 395 ms under "P2C" | LEAST_CONNECTIONS kept <4> servers *busy*`,
		}
		r.Rules[traffic.GradualIncrease] = rules.Rule{Algorithm: balance.LeastConnections, Reason: ""}
	})
	v.Author, v.Summary = "gpt-4o", "Faster in bursts."
	v.Reasons = []Reason{
		{Path: "rules.SPIKE", Text: "as in the rule", Unsupported: []string{"395 ms"}},
		{Path: "detection.spike_rate", Text: "bursts grow by 0.9 in their first window"},
	}
	return v
}

func TestCompare(t *testing.T) {
	d := Compare(version(1, nil), proposal())
	require.False(t, d.Same)
	require.Len(t, d.Rules, 5)
	require.Equal(t, RuleChange{
		State: traffic.Spike, Changed: true, Before: balance.LeastConnections, After: balance.P2CPeakEWMA,
		ParamsAfter: rules.Params{Decay: 5 * time.Second}, Unsupported: []string{"395 ms"},
		Reason: proposal().Rules.Rules[traffic.Spike].Reason,
	}, d.Rules[3])
	require.Equal(t, NoReason, d.Rules[2].Reason)
	require.Equal(t, RuleChange{
		State: traffic.LowTraffic, Before: balance.RoundRobin, After: balance.RoundRobin, ReasonUnchanged: true,
		Reason: rules.Default().Rules[traffic.LowTraffic].Reason,
	}, d.Rules[0])
	require.Equal(t, []SettingChange{
		{Path: "detection.spike_rate", Before: "1.00", After: "0.80", Reason: "bursts grow by 0.9 in their first window"},
		{Path: "switching.cooldown", Before: "10s", After: "6s", Reason: NoReason},
	}, d.Settings)
	b, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	golden(t, "diff.json", string(b)+"\n")
	golden(t, "diff.txt", d.Text())
}

func TestMarkdown(t *testing.T) {
	golden(t, "diff.md", Compare(version(1, nil), proposal()).Markdown(Table{
		Title:  "Verdict: kept",
		Header: []string{"Scenario", "Metric", "Champion", "Candidate", "Effect"},
		Rows:   [][]string{{"burst", "p95", "610 ms", "395 ms", "-35.2%"}, {"steady | a", "rps"}},
	}))
}

func TestCompareWithItself(t *testing.T) {
	d := Compare(version(3, nil), version(3, nil))
	require.True(t, d.Same)
	require.Empty(t, d.Settings)
	require.Empty(t, d.Text())
	require.Contains(t, d.Markdown(), "Both versions make a proxy behave the same.")
	require.NotContains(t, d.Markdown(), "```")
}

// An emphasis, a link, a tag or a cell that a reason smuggles in would show as such.
func TestWhatIsExportedStaysText(t *testing.T) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM))
	block := regexp.MustCompile(`(?s)<(?:p|h1|h2|ul|ol|pre|blockquote)>(.*?)</`)
	cell := regexp.MustCompile(`(?s)<td>(.*?)</td>`)
	rapid.Check(t, func(t *rapid.T) {
		reason := rapid.OneOf(
			rapid.StringOf(rapid.SampledFrom([]rune("ab_*`[]()<>|\\~#&!-+1.:/@$ \n\t\"'="))),
			rapid.SampledFrom([]string{"https://a.example/x", "www.example.com", "a@b.example", "![x](http://y)", "<script>", "&lt;b&gt;", "&#35;", "~~~", "__init__", "- a", "1. b", "# c"}),
		).Draw(t, "reason")
		b := version(2, nil)
		b.Summary = reason
		src := Compare(version(1, nil), b).Markdown(Table{Title: "t", Header: []string{"only"}, Rows: [][]string{{reason}}})
		var out bytes.Buffer
		if err := markdown.Convert([]byte(src), &out); err != nil {
			t.Fatal(err)
		}
		want := strings.Join(strings.Fields(reason), " ")
		if got := html.UnescapeString(block.FindAllStringSubmatch(out.String(), 3)[2][1]); want != "" && got != want {
			t.Fatalf("summary: got %q, want %q\n%s", got, want, src)
		}
		cells := cell.FindAllStringSubmatch(out.String(), -1)
		got := html.UnescapeString(cells[len(cells)-1][1])
		if got != want {
			t.Fatalf("got %q, want %q\n%s", got, want, src)
		}
	})
}

func TestABlockOfBackticksDoesNotEndTheTextDiff(t *testing.T) {
	a, b := version(1, nil), version(2, nil)
	a.YAML = "````\n" + a.YAML
	b.YAML = "````\n" + b.YAML
	require.Contains(t, Compare(a, b).Markdown(), "\n`````diff\n")
}
