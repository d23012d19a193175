package rules

import (
	"bytes"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// maxVersion is the highest version number.
const maxVersion = 1_000_000_000

// Parse reads a rule file strictly: an unknown, duplicate or missing key, a wrong type, an unknown name and a value
// out of range are faults, as are anchors, aliases, merge keys, tags and a second document. All of them are
// reported at once. name stands in the faults; the error is a *Faults, and the rule set is empty then. To check a
// rule set that was built in memory, parse what Render makes of it.
func Parse(name string, b []byte) (RuleSet, error) {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) // else the YAML parser counts some lines twice
	f := newFaulter(b)
	var r RuleSet
	if root := f.scan(b); root != nil {
		r = readRuleSet(f.section(unwrap(root), place{}, ""))
	}
	if err := f.err(name); err != nil {
		return RuleSet{}, err
	}
	return r, nil
}

// readRuleSet reads the top of the file. Every section is read whatever is wrong with the one before it, so that all
// faults come out together.
func readRuleSet(s *section) RuleSet {
	r := RuleSet{
		Version: s.integer("version", 1, maxVersion),
		Parent:  s.integer("parent", 0, maxVersion),
		Origin:  Origin(s.word("origin", []string{string(OriginLLM), string(OriginLocal), string(OriginHuman)})),
	}
	if r.Version > 0 && r.Parent >= r.Version {
		s.add(s.keys["parent"], "parent", "a lower number than version, or 0 for none", "parent %d of version %d", r.Parent, r.Version)
	}
	r.Detection = readDetection(s.mapping("detection"))
	r.Switching = readSwitching(s.mapping("switching"))
	r.Rules = readRules(s.mapping("rules"))
	s.done()
	return r
}

// readDetection reads the thresholds. The ranges leave out what can't work: rates at which everything or nothing is
// a spike, a factor under 1 by which every backend would be slower than itself, a slope through two points.
func readDetection(s *section) traffic.Detection {
	defer s.done()
	return traffic.Detection{
		Window:                s.duration("window", time.Second, 5*time.Minute),
		LowTrafficRPS:         s.number("low_traffic_rps", 0, 1e6),
		GradualIncreaseRate:   s.number("gradual_increase_rate", 0.01, 100),
		SpikeRate:             s.number("spike_rate", 0.01, 100),
		OverloadErrorRate:     s.number("overload_error_rate", 0.001, 1),
		OverloadLatency:       s.duration("overload_latency", time.Millisecond, 5*time.Minute),
		OverloadLatencyFactor: s.number("overload_latency_factor", 1, 100),
		LatencySlopeWindows:   s.integer("latency_slope_windows", 3, 60),
	}
}

// readSwitching reads the gates. A confidence of 0.99 is the most that a classification claims.
func readSwitching(s *section) Switching {
	defer s.done()
	return Switching{
		MinConfidence:         s.number("min_confidence", 0, 0.99),
		Cooldown:              s.duration("cooldown", 0, 10*time.Minute),
		MaxSwitchesPerMinute:  s.integer("max_switches_per_minute", 1, 60),
		SustainedWindows:      s.integer("sustained_windows", 1, 20),
		SpikeSustainedWindows: s.integer("spike_sustained_windows", 1, 20),
	}
}

// readRules reads the rule of each of the five states.
func readRules(s *section) map[traffic.State]Rule {
	defer s.done()
	rules := map[traffic.State]Rule{}
	for _, state := range traffic.States() {
		rules[state] = readRule(s.mapping(string(state)))
	}
	return rules
}

// readRule reads one rule. The reason has to be there, but may be empty: Lint says so.
func readRule(s *section) Rule {
	defer s.done()
	var names []string
	for _, a := range balance.Algorithms() {
		names = append(names, string(a))
	}
	r := Rule{Algorithm: balance.Algorithm(s.word("algorithm", names)), Reason: s.text("reason")}
	if s.has("params") {
		r.Params = readParams(s.mapping("params"), r.Algorithm)
	}
	return r
}

// readParams reads an algorithm's own settings, each of which only some algorithms have.
func readParams(s *section, a balance.Algorithm) Params {
	defer s.done()
	var p Params
	if s.has("decay") {
		p.Decay = s.duration("decay", 100*time.Millisecond, 10*time.Minute)
		if a != balance.P2CPeakEWMA && a != "" {
			s.add(s.keys["decay"], s.join("decay"), "remove it, or choose "+string(balance.P2CPeakEWMA), "%s has no decay", a)
		}
	}
	return p
}
