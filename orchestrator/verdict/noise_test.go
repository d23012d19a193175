package verdict

import (
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
