package advisor

import (
	"fmt"
	"strconv"
	"time"

	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// thresholds is every number of a rule set that a generator may change, by its path in the rule file. field points
// at a float64, an int or a time.Duration.
var thresholds = []threshold{
	{"detection.window", func(r *rules.RuleSet) any { return &r.Detection.Window }},
	{"detection.low_traffic_rps", func(r *rules.RuleSet) any { return &r.Detection.LowTrafficRPS }},
	{"detection.gradual_increase_rate", func(r *rules.RuleSet) any { return &r.Detection.GradualIncreaseRate }},
	{"detection.spike_rate", func(r *rules.RuleSet) any { return &r.Detection.SpikeRate }},
	{"detection.overload_error_rate", func(r *rules.RuleSet) any { return &r.Detection.OverloadErrorRate }},
	{"detection.overload_latency", func(r *rules.RuleSet) any { return &r.Detection.OverloadLatency }},
	{"detection.overload_latency_factor", func(r *rules.RuleSet) any { return &r.Detection.OverloadLatencyFactor }},
	{"detection.latency_slope_windows", func(r *rules.RuleSet) any { return &r.Detection.LatencySlopeWindows }},
	{"switching.min_confidence", func(r *rules.RuleSet) any { return &r.Switching.MinConfidence }},
	{"switching.cooldown", func(r *rules.RuleSet) any { return &r.Switching.Cooldown }},
	{"switching.max_switches_per_minute", func(r *rules.RuleSet) any { return &r.Switching.MaxSwitchesPerMinute }},
	{"switching.sustained_windows", func(r *rules.RuleSet) any { return &r.Switching.SustainedWindows }},
	{"switching.spike_sustained_windows", func(r *rules.RuleSet) any { return &r.Switching.SpikeSustainedWindows }},
}

type threshold struct {
	path  string
	field func(*rules.RuleSet) any
}

// thresholdAt finds a threshold by its path.
func thresholdAt(path string) (threshold, bool) {
	for _, t := range thresholds {
		if t.path == path {
			return t, true
		}
	}
	return threshold{}, false
}

// text is the threshold's value as a rule file has it, e.g. "0.3" or "10s".
func (t threshold) text(r rules.RuleSet) string { return fmt.Sprint(deref(t.field(&r))) }

// set parses the text of a value. Ranges are not checked here but by the rule set's own validation.
func (t threshold) set(r *rules.RuleSet, text string) error {
	var err error
	switch p := t.field(r).(type) {
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *int:
		*p, err = strconv.Atoi(text)
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	}
	if err != nil {
		return fmt.Errorf("thresholds: %s: %q is no %s", t.path, bounded(text, 40), kindOf(t.field(r)))
	}
	return nil
}

func kindOf(field any) string {
	switch field.(type) {
	case *int:
		return "whole number"
	case *time.Duration:
		return `duration such as "10s" or "500ms"`
	}
	return "number"
}

func deref(field any) any {
	switch p := field.(type) {
	case *float64:
		return *p
	case *int:
		return *p
	case *time.Duration:
		return p.String()
	}
	return nil
}

// Changes says in words what b changes against a, for people and for Attempt: algorithms and their settings per
// traffic state, then thresholds. Versions, origins and reasons are no change.
func Changes(a, b rules.RuleSet) []string {
	var out []string
	for _, s := range traffic.States() {
		before, after := a.Rules[s], b.Rules[s]
		if before.Algorithm != after.Algorithm {
			out = append(out, fmt.Sprintf("%s: %s → %s", s, before.Algorithm, after.Algorithm))
		}
		if before.Params.Decay != after.Params.Decay {
			out = append(out, fmt.Sprintf("%s: decay %s → %s", s, decayText(before), decayText(after)))
		}
	}
	for _, t := range thresholds {
		if x, y := t.text(a), t.text(b); x != y {
			out = append(out, t.changedFrom(a)+y)
		}
	}
	return out
}

// changedFrom is how the text of a change of the threshold begins: path and value before.
func (t threshold) changedFrom(r rules.RuleSet) string { return t.path + ": " + t.text(r) + " → " }

func decayText(r rules.Rule) string {
	if r.Params.Decay == 0 {
		return "default"
	}
	return r.Params.Decay.String()
}
