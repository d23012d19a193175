package verdict

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpreadIsAboutThePairsOwnMean(t *testing.T) {
	pairs := pairsOf("steady", 4, func(i int, m *Measurement) {
		m.P95MS = 800 * (1 + 0.01*float64(i%2)) // twice as slow, and steadily so
	})
	for i := range pairs {
		pairs[i].Champion.P95MS = 400
	}
	n, err := Spread(pairs)
	require.NoError(t, err)
	require.Len(t, n, 3)
	want := math.Log(1.01) / 2 * math.Sqrt(4.0/3)
	require.InDelta(t, want, n[0].SD, 1e-12)
	require.Equal(t, 4, n[0].Pairs)

	_, err = Spread(nil)
	require.ErrorContains(t, err, "no pairs")
}

func TestPoolWeighsByPairsAndForgets(t *testing.T) {
	old := []Noise{{"a", P95, 0.10, 11}}
	got := Pool(old, []Noise{{"a", P95, 0.02, 31}, {"b", P95, 0.5, 4}})
	require.Len(t, got, 2)
	require.InDelta(t, math.Sqrt((10*0.01+30*0.0004)/40), got[0].SD, 1e-12)
	require.Equal(t, 41, got[0].Pairs)
	require.Equal(t, Noise{"b", P95, 0.5, 4}, got[1])

	for range 50 {
		got = Pool(got, []Noise{{"a", P95, 0.05, 9}})
	}
	require.InDelta(t, 0.05, got[0].SD, 0.001)
	require.LessOrEqual(t, got[0].Pairs, maxRemembered+1)
}

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
