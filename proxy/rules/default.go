package rules

import (
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// Default is version 1: what a new installation starts with. Its thresholds and gates are the published ones; its
// rules are what one would choose without having measured anything, and the first that a cycle tries to beat.
func Default() RuleSet {
	return RuleSet{
		Version: 1,
		Origin:  OriginHuman,
		Detection: traffic.Detection{
			Window:                10 * time.Second,
			LowTrafficRPS:         5,
			GradualIncreaseRate:   0.30,
			SpikeRate:             1.00,
			OverloadErrorRate:     0.10,
			OverloadLatency:       500 * time.Millisecond,
			OverloadLatencyFactor: 2.0,
			LatencySlopeWindows:   6,
		},
		Switching: Switching{
			MinConfidence:         0.6,
			Cooldown:              10 * time.Second,
			MaxSwitchesPerMinute:  3,
			SustainedWindows:      3,
			SpikeSustainedWindows: 2,
		},
		Rules: map[traffic.State]Rule{
			traffic.LowTraffic:      {Algorithm: balance.RoundRobin, Reason: "with few requests no backend queues, so the simplest order will do"},
			traffic.HighStable:      {Algorithm: balance.WeightedRoundRobin, Reason: "steady load is shared by the weights that the backends were given"},
			traffic.GradualIncrease: {Algorithm: balance.IPHash, Reason: "while load grows clients stay on their backend, whose caches are warm"},
			traffic.Spike:           {Algorithm: balance.LeastConnections, Reason: "in a burst the backend with the fewest open requests frees up first"},
			traffic.OverloadedNode:  {Algorithm: balance.WeightedLeastConnections, Reason: "an overloaded backend keeps its requests open longer and so gets fewer new ones"},
		},
	}
}

// Safe is the built-in fallback of a proxy that has no usable rules: ROUND_ROBIN in every state, whatever the
// traffic does.
func Safe() RuleSet {
	r := Default()
	for state := range r.Rules {
		r.Rules[state] = Rule{Algorithm: balance.RoundRobin, Reason: "built-in safe rules: no usable rule file"}
	}
	return r
}
