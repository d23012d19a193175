package advisor

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

func advised(t *testing.T, e Evidence) Advice {
	t.Helper()
	g, err := New("local", Config{})
	require.NoError(t, err)
	a, err := g.Advise(context.Background(), e)
	require.NoError(t, err)
	return a
}

func TestLocalTakesWhatIsBestInTheStateItServes(t *testing.T) {
	e := evidence()
	a := advised(t, e)
	require.Equal(t, []string{"SPIKE: ROUND_ROBIN → LEAST_CONNECTIONS"}, Changes(e.Champion, a.Rules))
	require.Equal(t, rules.OriginLocal, a.Rules.Origin)
	require.Zero(t, a.Rules.Version)
	require.Len(t, a.Reasons, 5)
	require.Equal(t, "LEAST_CONNECTIONS in place of ROUND_ROBIN: p95 in burst 412 ms, 140.0 rps and 1.0% errors with LEAST_CONNECTIONS, "+
		"against p95 in burst 650 ms, 140.0 rps and 1.0% errors with ROUND_ROBIN; 60.0% of the windows there were in SPIKE.", a.Reasons[3].Text)
	for _, r := range a.Reasons {
		require.Empty(t, r.Unsupported, r.Text)
	}
	require.Contains(t, a.Reasons[2].Text, "IP_HASH is kept: no window of any scenario was in GRADUAL_INCREASE")
	require.Equal(t, e.Champion.Rules[traffic.GradualIncrease], a.Rules.Rules[traffic.GradualIncrease])
	// the evidence handed in is untouched
	require.Equal(t, balance.RoundRobin, e.Champion.Rules[traffic.Spike].Algorithm)
}

func TestLocalWeighsErrorsThenP95ThenRPS(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *Measured) // of EXPECTED_COMPLETION in burst, where ROUND_ROBIN has p95 650 ms, 1% errors, 140 rps
		want   balance.Algorithm
	}{
		{"p95 8% lower is noise", func(m *Measured) { m.P95MS = 600 }, balance.RoundRobin},
		{"p95 12% lower", func(m *Measured) { m.P95MS = 570 }, balance.ExpectedCompletion},
		{"a lower p95 does not pay for errors", func(m *Measured) { m.P95MS, m.ErrorRate = 300, 0.05 }, balance.RoundRobin},
		{"no errors pay for a higher p95", func(m *Measured) { m.P95MS, m.ErrorRate = 700, 0 }, balance.ExpectedCompletion},
		{"more RPS at the same p95", func(m *Measured) { m.RPS = 160 }, balance.ExpectedCompletion},
		{"more RPS does not pay for p95", func(m *Measured) { m.RPS, m.P95MS = 160, 800 }, balance.RoundRobin},
		{"no p95", func(m *Measured) { m.P95MS = 0 }, balance.RoundRobin},
		{"NaN", func(m *Measured) { m.P95MS, m.ErrorRate = 10, math.NaN() }, balance.RoundRobin},
	} {
		e := evidence()
		measured(&e, "burst", balance.LeastConnections).P95MS = 650
		c.change(measured(&e, "burst", balance.ExpectedCompletion))
		require.Equal(t, c.want, advised(t, e).Rules.Rules[traffic.Spike].Algorithm, c.name)
	}
}

func TestLocalProposesNothingWhereNothingIsBetter(t *testing.T) {
	e := evidence()
	measured(&e, "burst", balance.LeastConnections).P95MS = 640
	a := advised(t, e)
	require.True(t, rules.Same(e.Champion, a.Rules))
	require.Contains(t, a.Summary, "No fixed algorithm beat the present rules")
}

func TestLocalComparesWithTheChampionWhereItsAlgorithmWasNotMeasured(t *testing.T) {
	e := evidence()
	measured(&e, "burst", balance.RoundRobin).Algorithm = "OTHER"
	a := advised(t, e)
	require.Equal(t, balance.LeastConnections, a.Rules.Rules[traffic.Spike].Algorithm)
	require.Contains(t, a.Reasons[3].Text, "with the champion's rules")
	require.Empty(t, a.Reasons[3].Unsupported)
}

func TestLocalKeepsWhatItCannotCompare(t *testing.T) {
	e := evidence()
	measured(&e, "burst", balance.RoundRobin).Algorithm = "OTHER"
	for i := range e.Scenarios {
		e.Scenarios[i].P95MS = 0
	}
	a := advised(t, e)
	require.Equal(t, balance.RoundRobin, a.Rules.Rules[traffic.Spike].Algorithm)
	require.Contains(t, a.Reasons[3].Text, "nothing was measured in burst")
}

func TestLocalNeedsMeasurements(t *testing.T) {
	_, err := local{}.Advise(context.Background(), Evidence{Champion: rules.Default()})
	require.ErrorContains(t, err, "no measurements to go by")
}

func TestGeneratorsAreKnownByName(t *testing.T) {
	require.Equal(t, []string{"local", "openai"}, Names())
	_, err := New("gpt", Config{})
	require.ErrorContains(t, err, `unknown generator "gpt", want one of local, openai`)
}
