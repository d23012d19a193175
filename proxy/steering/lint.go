package steering

import (
	"fmt"
	"slices"

	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// flapping is the share of windows with a gated switch above which a rule set is refused.
const flapping = 0.5

// Lint is all that can be said against a rule set before any load: what rules.Lint finds, and what a replay over a
// recorded series shows. Without a series it is rules.Lint alone. The report is the replay's, without its decisions.
func Lint(rs rules.RuleSet, series []traffic.Snapshot) ([]rules.Remark, Report) {
	found := rules.Lint(rs)
	report := Replay(rs, series)
	report.Decisions = []Decision{}
	if report.Windows == 0 {
		return found, report
	}
	if f, flaps := report.flaps(); flaps {
		found = append(found, f)
	}
	if f, hidden := report.allLow(rs, series); hidden {
		return append(found, f), report // and so no other rule is reached
	}
	for _, s := range report.Unreached {
		found = append(found, report.unreached(s, rs))
	}
	return found, report
}

// flaps is the remark that a rule set switches in more than every second window.
func (r Report) flaps() (rules.Remark, bool) {
	gated := r.Switches - r.Adoptions
	return rules.Remark{Severity: rules.Refuse, Path: "switching",
		Text: fmt.Sprintf("replayed over the %d recorded windows it switches %d times, %.1f times a minute: more than every second window is flapping", r.Windows, gated, r.SwitchesPerMinute),
		Fix:  "ask for more windows in a row, a longer cooldown or fewer switches a minute",
	}, float64(gated)/float64(r.Windows) > flapping
}

// allLow is the remark that every recorded window is LOW_TRAFFIC. It is a contradiction where the rules of then named
// other states, and a quiet hour where they didn't.
func (r Report) allLow(rs rules.RuleSet, series []traffic.Snapshot) (rules.Remark, bool) {
	f := rules.Remark{Severity: rules.Warn, Path: "detection.low_traffic_rps",
		Text: fmt.Sprintf("%g is above all that was recorded (at most %.1f rps): all %d windows are LOW_TRAFFIC, and no other rule is reached", rs.Detection.LowTrafficRPS, r.MostRPS, r.Windows),
		Fix:  "lower it, or replay over busier traffic"}
	if slices.ContainsFunc(series, func(s traffic.Snapshot) bool { return s.State != "" && s.State != traffic.LowTraffic }) {
		f.Severity = rules.Refuse
	}
	return f, r.States[traffic.LowTraffic] == r.Windows
}

// unreached is the remark that a state's rule never came into force, and what it missed.
func (r Report) unreached(s traffic.State, rs rules.RuleSet) rules.Remark {
	f := rules.Remark{Severity: rules.Warn, Path: "rules." + string(s)}
	if n := r.States[s]; n > 0 {
		f.Text = fmt.Sprintf("never in force: %d of the %d recorded windows were %s, but the gates held each back", n, r.Windows, s)
		f.Fix = "lower switching.min_confidence or the count of windows that it has to last, if it was to be reached"
		return f
	}
	d := rs.Detection
	f.Text = fmt.Sprintf("never in force: none of the %d recorded windows was %s", r.Windows, s)
	f.Fix = "leave it if such traffic just did not occur"
	switch s {
	case traffic.Spike:
		f.Text += fmt.Sprintf("; the highest rate was %+.2f (threshold %.2f)", r.MostRate, d.SpikeRate)
		f.Fix += ", else lower detection.spike_rate"
	case traffic.GradualIncrease:
		f.Text += fmt.Sprintf("; the highest rate was %+.2f (thresholds %.2f and, for a SPIKE, %.2f)", r.MostRate, d.GradualIncreaseRate, d.SpikeRate)
		f.Fix += ", else move detection.gradual_increase_rate"
	case traffic.OverloadedNode:
		f.Fix += ", else lower detection.overload_latency or detection.overload_error_rate"
	case traffic.LowTraffic:
		f.Text += fmt.Sprintf(" (threshold %g rps)", d.LowTrafficRPS)
		f.Fix += ", else raise detection.low_traffic_rps"
	}
	return f
}
