package verdict

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResolveSaysWhatCanBeSeen(t *testing.T) {
	limits := DefaultLimits()
	r := Resolve([]Noise{{"calm", P95, 0.03, 20}, {"wild", P95, 0.30, 20}, {"calm", RPS, 0, 20}}, limits, looks)
	require.Len(t, r, 3)
	require.Less(t, r[0].Smallest, limits.P95Increase)
	require.LessOrEqual(t, r[0].Needed, 4)
	require.Greater(t, r[1].Smallest, limits.P95Increase)
	require.Greater(t, r[1].Needed, 8)
	require.Positive(t, r[2].Smallest)
}

func TestScatterIsWhatPairsDifferByWithinThemselves(t *testing.T) {
	at := func(scale, ratio float64) Pair { // pairs that drift apart by scale
		a := Measurement{Requests: 1000, RPS: 80 * scale, P95MS: 400 * scale, ErrorRate: 0.01}
		b := a
		b.P95MS *= ratio
		return Pair{Scenario: "steady", Champion: a, Candidate: b}
	}
	up, down := math.Exp(0.1), math.Exp(-0.1)
	equal, trial := Scatter{}, Scatter{}
	equal.AddEqual(at(1, up), at(3, down), at(9, 1))
	trial.AddTrial(at(1, 2*up), at(3, 2*down), at(9, 2))
	for _, s := range []struct {
		of   Scatter
		sd   float64
		pair int
	}{{equal, math.Sqrt(0.02 / 3), 4}, {trial, 0.1, 3}} {
		got := s.of.Noise("steady")
		require.Len(t, got, 3)
		require.Equal(t, P95, got[0].Metric)
		require.Equal(t, "steady", got[0].Scenario)
		require.InDelta(t, s.sd, got[0].SD, 1e-9)
		require.Equal(t, s.pair, got[0].Pairs)
		require.InDelta(t, 0, got[1].SD, 1e-9)
	}
	none := Scatter{}
	none.AddEqual(Pair{})
	none.AddTrial(Pair{}, Pair{}, at(1, math.NaN()))
	none.AddTrial(at(1, 1)) // one pair has no scatter
	require.Empty(t, none.Noise("steady"))
}
