package rules

import (
	"fmt"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// Settle is how long a cycle lets new rules settle before it measures them. Rules that react more slowly are not
// in force when measuring begins.
const Settle = 30 * time.Second

// Warning is something in a valid rule set that is probably not meant.
type Warning struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Lint looks for settings that contradict each other or can never take effect. The rule set is valid; nothing that
// Lint says keeps it from being applied.
func Lint(r RuleSet) []Warning {
	var w []Warning
	warn := func(path, format string, a ...any) { w = append(w, Warning{path, fmt.Sprintf(format, a...)}) }
	d, s := r.Detection, r.Switching

	// SPIKE is checked before GRADUAL_INCREASE.
	if d.SpikeRate <= d.GradualIncreaseRate {
		warn("detection.spike_rate", "%s is not above gradual_increase_rate %s: a growing rate is always a SPIKE first, and GRADUAL_INCREASE is reached by a slow trend alone",
			fixed(d.SpikeRate, 2), fixed(d.GradualIncreaseRate, 2))
	}
	if d.OverloadErrorRate == 1 {
		warn("detection.overload_error_rate", "no backend has more errors than requests: errors never make an OVERLOADED_NODE")
	}
	if reaction := time.Duration(s.SustainedWindows) * d.Window; reaction > Settle {
		warn("switching.sustained_windows", "a change of state takes %d × %s = %s to take effect, longer than the %s that new rules get to settle",
			s.SustainedWindows, span(d.Window), span(reaction), span(Settle))
	}
	if s.Cooldown > Settle {
		warn("switching.cooldown", "%s is longer than the %s that new rules get to settle", span(s.Cooldown), span(Settle))
	}
	// A spike is what the shorter count is for: later than every other state it has no use.
	if s.SpikeSustainedWindows > s.SustainedWindows {
		warn("switching.spike_sustained_windows", "a SPIKE has to last %d windows, longer than the %d of every other state",
			s.SpikeSustainedWindows, s.SustainedWindows)
	}
	// Switches are at least a cooldown apart, and at least the windows that the quickest state has to last.
	if pace := max(s.Cooldown, d.Window*time.Duration(min(s.SustainedWindows, s.SpikeSustainedWindows))); time.Duration(s.MaxSwitchesPerMinute)*pace > time.Minute {
		warn("switching.max_switches_per_minute", "%d is never reached: at most one switch every %s fits the cooldown and the windows", s.MaxSwitchesPerMinute, span(pace))
	}
	if s.MinConfidence > 0.95 {
		warn("switching.min_confidence", "%s is more than GRADUAL_INCREASE ever claims (0.95): its rule is never reached", plain(s.MinConfidence))
	}
	return append(w, lintRules(r)...)
}

// lintRules looks at the rules alone.
func lintRules(r RuleSet) []Warning {
	var w []Warning
	used := map[balance.Algorithm]bool{}
	for _, state := range traffic.States() {
		used[r.Rules[state].Algorithm] = true
		if r.Rules[state].Reason == "" {
			w = append(w, Warning{"rules." + string(state) + ".reason", "no reason given"})
		}
	}
	if len(used) == 1 {
		w = append(w, Warning{"rules", fmt.Sprintf("every state has the same algorithm, %s: nothing will ever switch", r.Rules[traffic.LowTraffic].Algorithm)})
	}
	return w
}
