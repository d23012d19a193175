package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

func TestLint(t *testing.T) {
	for name, test := range map[string]struct {
		severity Severity
		path     string
		change   func(*RuleSet)
	}{
		"SPIKE before GRADUAL_INCREASE": {Refuse, "detection.spike_rate", func(r *RuleSet) { r.Detection.SpikeRate = 0.3 }},
		"more errors than requests":     {Warn, "detection.overload_error_rate", func(r *RuleSet) { r.Detection.OverloadErrorRate = 1 }},
		"slower than settling":          {Warn, "switching.sustained_windows", func(r *RuleSet) { r.Switching.SustainedWindows = 4 }},
		"cooldown beyond settling": {Warn, "switching.cooldown", func(r *RuleSet) {
			r.Switching.Cooldown, r.Switching.MaxSwitchesPerMinute = time.Minute, 1
		}},
		"a spike slower than the rest":   {Warn, "switching.spike_sustained_windows", func(r *RuleSet) { r.Switching.SustainedWindows = 1 }},
		"more switches than fit":         {Warn, "switching.max_switches_per_minute", func(r *RuleSet) { r.Switching.MaxSwitchesPerMinute = 4 }},
		"confidence beyond GRADUAL's":    {Refuse, "switching.min_confidence", func(r *RuleSet) { r.Switching.MinConfidence, r.Detection.SpikeRate = 0.98, 2 }},
		"confidence that all have":       {Warn, "switching.min_confidence", func(r *RuleSet) { r.Switching.MinConfidence = 0.5 }},
		"a spike that is never acted on": {Warn, "detection.spike_rate", func(r *RuleSet) { r.Switching.MinConfidence = 0.9 }},
		"one brake":                      {Warn, "switching", func(r *RuleSet) { r.Switching.SpikeSustainedWindows, r.Switching.Cooldown = 1, 0 }},
		"no brake": {Refuse, "switching", func(r *RuleSet) {
			r.Switching = Switching{MinConfidence: 0.6, MaxSwitchesPerMinute: 6, SustainedWindows: 3, SpikeSustainedWindows: 1}
		}},
		"no reason":   {Warn, "rules.SPIKE.reason", func(r *RuleSet) { r.Rules[traffic.Spike] = Rule{Algorithm: balance.Random} }},
		"one for all": {Warn, "rules", func(r *RuleSet) { *r = Safe() }},
	} {
		t.Run(name, func(t *testing.T) {
			r := Default()
			test.change(&r)
			found := Lint(r)
			require.Len(t, found, 1)
			require.Equal(t, test.path, found[0].Path)
			require.Equal(t, test.severity, found[0].Severity)
			require.NotEmpty(t, found[0].Fix, "what to do about it")
			require.Equal(t, test.severity == Refuse, len(Refused(found)) == 1)
		})
	}
}

func TestLintReportsAllInOneGo(t *testing.T) {
	r := Default()
	r.Detection.SpikeRate, r.Detection.OverloadErrorRate, r.Switching.Cooldown = 0.2, 1, time.Minute
	var paths []string
	for _, f := range Lint(r) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"detection.spike_rate", "detection.overload_error_rate", "switching.cooldown", "switching.max_switches_per_minute"}, paths)
}

func p2c(decay time.Duration) func(*RuleSet) {
	return func(r *RuleSet) {
		r.Rules[traffic.Spike] = Rule{Algorithm: balance.P2CPeakEWMA, Params: Params{Decay: decay}}
	}
}

func TestSame(t *testing.T) {
	everywhere := func(change func(*RuleSet)) func(*RuleSet) {
		return func(r *RuleSet) { *r = Safe(); change(r) }
	}
	nothing := func(*RuleSet) {}
	for name, test := range map[string]struct {
		same bool
		a, b func(*RuleSet)
	}{
		"version, parent, origin": {true, nothing, func(r *RuleSet) { r.Version, r.Parent, r.Origin = 7, 6, OriginLLM }},
		"reason": {true, nothing, func(r *RuleSet) {
			r.Rules[traffic.Spike] = Rule{Algorithm: balance.LeastConnections, Reason: "another"}
		}},
		"algorithm":                          {false, nothing, func(r *RuleSet) { r.Rules[traffic.Spike] = Rule{Algorithm: balance.Random} }},
		"threshold":                          {false, nothing, func(r *RuleSet) { r.Detection.SpikeRate = 2 }},
		"gate":                               {false, nothing, func(r *RuleSet) { r.Switching.Cooldown = 0 }},
		"decay":                              {false, p2c(0), p2c(time.Second)},
		"the default decay":                  {true, p2c(0), p2c(balance.DefaultDecay)},
		"a decay where nothing decays":       {true, nothing, func(r *RuleSet) { x := r.Rules[traffic.Spike]; x.Params.Decay = 1; r.Rules[traffic.Spike] = x }},
		"a confidence that every state has":  {true, func(r *RuleSet) { r.Switching.MinConfidence = 0 }, func(r *RuleSet) { r.Switching.MinConfidence = 0.5 }},
		"a confidence that some states lack": {false, func(r *RuleSet) { r.Switching.MinConfidence = 0 }, func(r *RuleSet) { r.Switching.MinConfidence = 0.51 }},
		"thresholds, where all states balance alike": {true, everywhere(nothing), everywhere(func(r *RuleSet) {
			r.Detection.SpikeRate, r.Switching.Cooldown = 2, time.Minute
		})},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := Default(), Default()
			test.a(&a)
			test.b(&b)
			before := string(Render(a))
			require.Equal(t, test.same, Same(a, b))
			require.Equal(t, test.same, Same(b, a))
			require.Equal(t, before, string(Render(a)), "comparing changes nothing")
		})
	}
}
