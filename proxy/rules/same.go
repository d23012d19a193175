package rules

import (
	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// Same reports whether a and b make a proxy behave the same: version, parent, origin and reasons aside, and settings
// that have no effect.
func Same(a, b RuleSet) bool {
	a, b = effective(a), effective(b)
	if a.Detection != b.Detection || a.Switching != b.Switching {
		return false
	}
	for _, state := range traffic.States() {
		x, y := a.Rules[state], b.Rules[state]
		if x.Algorithm != y.Algorithm || x.Params != y.Params {
			return false
		}
	}
	return true
}

// effective puts settings without an effect at the value that has none either: a decay where nothing decays or that is
// the default, a confidence that every state claims, and thresholds and gates where all states balance alike.
func effective(r RuleSet) RuleSet {
	of := map[traffic.State]Rule{}
	alike := true
	for _, state := range traffic.States() {
		x := r.Rules[state]
		if x.Algorithm != balance.P2CPeakEWMA || x.Params.Decay == balance.DefaultDecay {
			x.Params.Decay = 0
		}
		of[state] = Rule{Algorithm: x.Algorithm, Params: x.Params}
		alike = alike && of[state] == of[traffic.LowTraffic]
	}
	r.Rules = of
	if r.Switching.MinConfidence <= traffic.LeastConfidence {
		r.Switching.MinConfidence = 0
	}
	if alike {
		r.Detection, r.Switching = traffic.Detection{}, Switching{}
	}
	return r
}
