package rules

import (
	"fmt"
	"slices"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// Settle is how long a cycle lets new rules settle before it measures them. Rules that react more slowly are not
// in force when measuring begins.
const Settle = 30 * time.Second

// Severity says what becomes of a proposal with a remark.
type Severity string

// The severities. Either kind of rule set is valid, and a person may put it in force.
const (
	Refuse Severity = "refuse" // it contradicts itself or flaps: a cycle spends no load on it
	Warn   Severity = "warn"   // probably not meant
)

// Remark is something in a valid rule set that can't work as it stands, or is probably not meant.
type Remark struct {
	Severity Severity `json:"severity"`
	Path     string   `json:"path"`          // e.g. "detection.spike_rate"
	Text     string   `json:"text"`          // what is wrong, with the figures
	Fix      string   `json:"fix,omitempty"` // what to do about it
}

// String is the whole remark but its severity, in one line.
func (f Remark) String() string {
	if f.Fix == "" {
		return f.Path + ": " + f.Text
	}
	return f.Path + ": " + f.Text + "; " + f.Fix
}

// Refused are the remarks for which a cycle refuses a rule set.
func Refused(all []Remark) []Remark {
	return slices.DeleteFunc(slices.Clone(all), func(f Remark) bool { return f.Severity != Refuse })
}

// Lint looks for settings that contradict each other or can never take effect, and reports all of them. What only
// traffic can tell, steering.Lint finds by a replay.
func Lint(r RuleSet) []Remark {
	var l linter
	l.detection(r)
	l.reaction(r)
	l.brakes(r)
	l.confidence(r)
	l.rules(r)
	return l.found
}

// linter collects remarks.
type linter struct{ found []Remark }

func (l *linter) warn(path, text, fix string) {
	l.found = append(l.found, Remark{Warn, path, text, fix})
}
func (l *linter) refuse(path, text, fix string) {
	l.found = append(l.found, Remark{Refuse, path, text, fix})
}

// detection looks at thresholds that hide a state. SPIKE is checked before GRADUAL_INCREASE.
func (l *linter) detection(r RuleSet) {
	d := r.Detection
	if d.SpikeRate <= d.GradualIncreaseRate {
		l.refuse("detection.spike_rate",
			fmt.Sprintf("%s is not above gradual_increase_rate %s: a growing rate is always a SPIKE first, and GRADUAL_INCREASE is reached by a slow trend alone", fixed(d.SpikeRate, 2), fixed(d.GradualIncreaseRate, 2)),
			"raise it, or lower detection.gradual_increase_rate")
	}
	if d.OverloadErrorRate == 1 {
		l.warn("detection.overload_error_rate", "no backend has more errors than requests: errors never make an OVERLOADED_NODE", "lower it, e.g. to 0.10")
	}
}

// reaction looks at gates that hold a new state back for longer than a measurement waits.
func (l *linter) reaction(r RuleSet) {
	d, s := r.Detection, r.Switching
	if takes := time.Duration(s.SustainedWindows) * d.Window; takes > Settle {
		l.warn("switching.sustained_windows",
			fmt.Sprintf("a change of state takes %d × %s = %s to take effect, longer than the %s that new rules get to settle", s.SustainedWindows, span(d.Window), span(takes), span(Settle)),
			"lower it, or shorten detection.window")
	}
	if s.Cooldown > Settle {
		l.warn("switching.cooldown", fmt.Sprintf("%s is longer than the %s that new rules get to settle", span(s.Cooldown), span(Settle)), "shorten it")
	}
	if s.SpikeSustainedWindows > s.SustainedWindows { // a spike is what the shorter count is for
		l.warn("switching.spike_sustained_windows",
			fmt.Sprintf("a SPIKE has to last %d windows, longer than the %d of every other state", s.SpikeSustainedWindows, s.SustainedWindows),
			"lower it to at most switching.sustained_windows")
	}
}

// brakes looks at what keeps a proxy from switching in every window. Switches are at least a cooldown apart, and at
// least the windows that the quickest state has to last.
func (l *linter) brakes(r RuleSet) {
	d, s := r.Detection, r.Switching
	quickest := min(s.SustainedWindows, s.SpikeSustainedWindows)
	pace := max(s.Cooldown, d.Window*time.Duration(quickest))
	if time.Duration(s.MaxSwitchesPerMinute)*pace > time.Minute {
		l.warn("switching.max_switches_per_minute",
			fmt.Sprintf("%d is never reached: at most one switch every %s fits the cooldown and the windows", s.MaxSwitchesPerMinute, span(pace)),
			"lower it, or shorten the cooldown or the counts of windows")
	}
	if quickest > 1 || s.Cooldown >= d.Window {
		return
	}
	text := fmt.Sprintf("one window is enough to switch, and no cooldown (%s) follows", span(s.Cooldown))
	const fix = "set the cooldown to a window or more, or ask for two windows in a row"
	if time.Duration(s.MaxSwitchesPerMinute)*d.Window >= time.Minute {
		l.refuse("switching", text+fmt.Sprintf(", and %d switches a minute allow one in every window: nothing keeps it from flapping", s.MaxSwitchesPerMinute), fix)
	} else {
		l.warn("switching", text+fmt.Sprintf(": only max_switches_per_minute (%d) brakes it", s.MaxSwitchesPerMinute), fix)
	}
}

// mostGradual is the most that a GRADUAL_INCREASE claims (traffic.Classify).
const mostGradual = 0.95

// confidence holds min_confidence against what the states' formulas can claim.
func (l *linter) confidence(r RuleSet) {
	least := r.Switching.MinConfidence
	if least > mostGradual {
		l.refuse("switching.min_confidence",
			fmt.Sprintf("%s is more than GRADUAL_INCREASE ever claims (%s): its rule is never reached", plain(least), plain(mostGradual)), "lower it")
	}
	if least > 0 && least <= traffic.LeastConfidence {
		l.warn("switching.min_confidence",
			fmt.Sprintf("%s holds nothing back: every state claims at least %s", plain(least), plain(traffic.LeastConfidence)), "raise it above, or set it to 0")
	}
	if traffic.SpikeConfidence(r.Detection.SpikeRate) < least {
		l.warn("detection.spike_rate",
			fmt.Sprintf("a SPIKE of rate %s claims a confidence of %.2f, less than min_confidence %s: at the threshold it is named but never acted on",
				fixed(r.Detection.SpikeRate, 2), traffic.SpikeConfidence(r.Detection.SpikeRate), plain(least)),
			"raise detection.spike_rate, or lower switching.min_confidence")
	}
}

// rules looks at the rules alone.
func (l *linter) rules(r RuleSet) {
	used := map[balance.Algorithm]bool{}
	for _, state := range traffic.States() {
		used[r.Rules[state].Algorithm] = true
		if r.Rules[state].Reason == "" {
			l.warn("rules."+string(state)+".reason", "no reason given", "say why, for those who read it next")
		}
	}
	if len(used) == 1 {
		l.warn("rules", fmt.Sprintf("every state has the same algorithm, %s: nothing will ever switch, and no threshold or gate has an effect", r.Rules[traffic.LowTraffic].Algorithm),
			"give the states that differ an algorithm of their own, if that was not meant")
	}
}
