package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// From the store's text of an attempt the local generator has to know the threshold again, however its value is written.
func TestAThresholdThatWasRolledBackIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		s   detection.Suggestion
		set func(*traffic.Detection)
	}{
		{detection.Suggestion{Path: "detection.spike_rate", Now: "1", Better: "0.5"}, func(d *traffic.Detection) { d.SpikeRate = 0.55 }},
		{detection.Suggestion{Path: "detection.gradual_increase_rate", Now: "0.3", Better: "0.25"}, func(d *traffic.Detection) { d.GradualIncreaseRate = 0.2 }},
		{detection.Suggestion{Path: "detection.overload_error_rate", Now: "0.1", Better: "0.08"}, func(d *traffic.Detection) { d.OverloadErrorRate = 0.07 }},
		{detection.Suggestion{Path: "detection.overload_latency_factor", Now: "2", Better: "3"}, func(d *traffic.Detection) { d.OverloadLatencyFactor = 2.5 }},
		{detection.Suggestion{Path: "detection.overload_latency", Now: "500ms", Better: "400ms"}, func(d *traffic.Detection) { d.OverloadLatency = 450 * time.Millisecond }},
	} {
		s, _, _ := seeded(t)
		cycle := running(t, s)
		tried := rules.Default()
		c.set(&tried.Detection)
		v, err := s.Append(t.Context(), ruleversions.Draft{Parent: 1, Origin: rules.OriginLocal, Author: "local", Rules: tried, CycleID: cycle.ID})
		require.NoError(t, err)
		cycle = put(t, s, cycle, v)
		_, err = s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveRollback, Cycle: cycle.ID})
		require.NoError(t, err)
		end(t, s, cycle, orchestrator.RolledBack)

		c.s.WrongNow = 9 // it would go first
		second := detection.Suggestion{Path: "detection.low_traffic_rps", Now: "5", Better: "8", WrongNow: 1}
		same := advisor.Measured{Scenario: "steady", RPS: 80, P95MS: 300, States: map[traffic.State]float64{traffic.HighStable: 1}}
		e := advisor.Evidence{Champion: rules.Default(), Scenarios: []advisor.Measured{same}, Detection: &advisor.Detection{Suggestions: []detection.Suggestion{c.s, second}}}
		same.Algorithm = balance.RoundRobin
		e.Algorithms = []advisor.Measured{same}
		e.Tried, err = s.Attempts(t.Context(), 10)
		require.NoError(t, err)
		local, err := advisor.New("local", advisor.Config{})
		require.NoError(t, err)
		a, err := local.Advise(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, []string{"detection.low_traffic_rps: 5 → 8"}, advisor.Changes(e.Champion, a.Rules), c.s.Path)
	}
}
