package steering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// linted is what a replay adds to a clean rule file, by path.
func linted(t *testing.T, change func(*rules.RuleSet), rps ...float64) map[string]rules.Remark {
	t.Helper()
	rs := rules.Default()
	if change != nil {
		change(&rs)
	}
	before := len(rules.Lint(rs))
	all, report := Lint(rs, recorded(rps...))
	require.Empty(t, report.Decisions)
	found := map[string]rules.Remark{}
	for _, f := range all[before:] {
		require.NotEmpty(t, f.Text)
		require.NotEmpty(t, f.Fix)
		found[f.Path] = f
	}
	return found
}

func TestLintWithoutASeriesIsThatOfTheFile(t *testing.T) {
	require.Empty(t, linted(t, nil))
}

func TestLintSaysWhichRulesATrafficNeverReaches(t *testing.T) {
	found := linted(t, nil, 80, 80, 80, 80, 104, 105, 200, 80, 80)
	require.NotContains(t, found, "rules.HIGH_STABLE")
	require.Contains(t, found["rules.LOW_TRAFFIC"].Text, "none of the 9 recorded windows was LOW_TRAFFIC")
	require.Contains(t, found["rules.OVERLOADED_NODE"].Text, "none of the 9")
	require.Contains(t, found["rules.GRADUAL_INCREASE"].Text, "never in force: 2 of the 9 recorded windows were GRADUAL_INCREASE, but the gates held each back")
	require.Contains(t, found["rules.SPIKE"].Text, "the highest rate was +0.90 (threshold 1.00)")
	for path, f := range found {
		require.Equal(t, rules.Warn, f.Severity, "%s: what did not occur contradicts nothing", path)
	}
}

func TestLintRefusesWhatFlaps(t *testing.T) {
	nervous := func(r *rules.RuleSet) {
		r.Switching = rules.Switching{MaxSwitchesPerMinute: 60, SustainedWindows: 1, SpikeSustainedWindows: 1}
	}
	waves := []float64{80, 80, 2, 80, 2, 80, 2, 80, 2, 80, 2, 80}
	f := linted(t, nervous, waves...)["switching"]
	require.Equal(t, rules.Refuse, f.Severity)
	require.Contains(t, f.Text, "replayed over the 12 recorded windows it switches 10 times, 5.0 times a minute")
	require.NotContains(t, linted(t, nil, waves...), "switching", "the published gates hold")
}

// A run of a few windows adopts its first one, and that is no flapping.
func TestLintCountsNoAdoptions(t *testing.T) {
	var series []traffic.Snapshot
	for range 6 {
		series = append(series, recorded(80)...)
	}
	all, report := Lint(rules.Default(), series)
	require.Equal(t, 6, report.Switches)
	require.Equal(t, 6, report.Adoptions)
	require.Zero(t, report.SwitchesPerMinute)
	for _, f := range all {
		require.NotEqual(t, "switching", f.Path)
	}
}

func TestLintOfAThresholdAboveAllTraffic(t *testing.T) {
	high := func(r *rules.RuleSet) { r.Detection.LowTrafficRPS = 1000 }
	found := linted(t, high, 80, 80, 80)
	require.Len(t, found, 1, "it says why no other rule is reached, and not each")
	require.Equal(t, rules.Refuse, found["detection.low_traffic_rps"].Severity, "the rules of then saw more than LOW_TRAFFIC")
	require.Contains(t, found["detection.low_traffic_rps"].Text, "at most 80.0 rps")
	require.Equal(t, rules.Warn, linted(t, nil, 1, 1, 1)["detection.low_traffic_rps"].Severity, "a quiet hour is no contradiction")
}

func TestLintOfRulesThatNeverDiffer(t *testing.T) {
	all, _ := Lint(rules.Safe(), recorded(80, 2, 80))
	require.Contains(t, all[0].Text, string(balance.RoundRobin))
	require.Empty(t, rules.Refused(all))
	_, report := Lint(rules.Safe(), recorded(80, 2, 80))
	require.Zero(t, report.Switches)
	require.Equal(t, 3, report.Windows)
	require.Equal(t, 10*time.Second, rules.Safe().Detection.Window)
}
