package orchestrator

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/verdict"
)

func TestHarmIsInUnitsOfTheLimits(t *testing.T) {
	champion := verdict.Measurement{Requests: 1000, RPS: 80, P95MS: 100, ErrorRate: 0.01}
	for name, test := range map[string]struct {
		change func(*verdict.Measurement)
		want   float64
	}{
		"the same":              {func(*verdict.Measurement) {}, 0},
		"p95 at its limit":      {func(m *verdict.Measurement) { m.P95MS = 115 }, 1},
		"p95 as much lower":     {func(m *verdict.Measurement) { m.P95MS = 100 / 1.15 }, -1},
		"RPS at its limit":      {func(m *verdict.Measurement) { m.RPS = 80 * 0.85 }, 1},
		"errors at their limit": {func(m *verdict.Measurement) { m.ErrorRate = 0.03 }, 1},
		"nothing answered":      {func(m *verdict.Measurement) { m.RPS, m.ErrorRate = 0, 1 }, 1000},
		"nothing measured":      {func(m *verdict.Measurement) { m.RPS, m.P95MS = 0, 0 }, 1000},
		"not a number":          {func(m *verdict.Measurement) { m.P95MS = math.NaN() }, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			m := champion
			test.change(&m)
			h := harm(champion, m, verdict.DefaultLimits())
			require.InDelta(t, test.want, h, 1e-9)
			_, err := json.Marshal(h)
			require.NoError(t, err, "it is stored")
		})
	}
}

// A screening in which the champion could not be measured anywhere tells nothing: the fewest changes win.
func TestWithoutAnyMeasurementTheFewestChangesWin(t *testing.T) {
	few, many := &Proposal{Number: 2, Fate: Entered, Changes: []string{"a"}}, &Proposal{Number: 1, Fate: Entered, Changes: []string{"a", "b"}}
	s := screening{limits: verdict.DefaultLimits(), proposals: []*Proposal{many, few}}
	require.Same(t, few, s.decide(1))
	require.Equal(t, Beaten, many.Fate)
}

// What the noise of short runs is known to be decides what is told apart.
func TestKnownNoiseTellsProposalsApart(t *testing.T) {
	at := func(p95 float64) map[string][]verdict.Measurement {
		return map[string][]verdict.Measurement{"burst": {{Requests: 1000, RPS: 80, P95MS: p95}}}
	}
	for sd, want := range map[float64]int{0.01: 1, 0.5: 2} {
		better := &Proposal{Number: 1, Fate: Entered, Changes: []string{"a", "b"}}
		less := &Proposal{Number: 2, Fate: Entered, Changes: []string{"a"}}
		s := screening{limits: verdict.DefaultLimits(), champion: at(100), proposals: []*Proposal{better, less},
			of:    map[*Proposal]map[string][]verdict.Measurement{better: at(80), less: at(95)},
			noise: []verdict.Noise{{Scenario: "burst", Metric: verdict.P95, SD: sd, Pairs: 9}, {Scenario: "burst", Metric: verdict.RPS, SD: 0.001, Pairs: 9}, {Scenario: "burst", Metric: verdict.ErrorRate, SD: 0.0001, Pairs: 9}}}
		require.Equal(t, want, s.decide(1).Number, "sd %v", sd)
		require.Equal(t, 1, better.Screening.Place)
	}
}
