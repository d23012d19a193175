package loadtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryBundledShapeLoads(t *testing.T) {
	for _, s := range Shapes() {
		require.NoError(t, s.Validate())
		for _, p := range []Profile{Quick, Standard, Nightly} {
			scaled := s.Scaled(p)
			require.NoError(t, scaled.Validate())
			if s.Closed == nil {
				require.GreaterOrEqual(t, scaled.Planned(), int64(100), "%s %s", s.Name, p)
			}
			t.Log(s.Name, p, scaled.Duration(), scaled.Planned())
		}
	}
}

func TestRequestsAreDueAlongTheRate(t *testing.T) {
	ramp := newTimeline([]Phase{{Duration: Duration(10 * time.Second), From: 0, To: 100}})
	require.EqualValues(t, 500, ramp.total)
	require.Equal(t, time.Duration(0), ramp.due(0))
	require.InDelta(t, 5, ramp.due(125).Seconds(), 1e-9) // a quarter of the requests in the first half

	step := newTimeline([]Phase{
		{Duration: Duration(time.Second), From: 10, To: 10},
		{Duration: Duration(time.Second)},
		{Duration: Duration(time.Second), From: 40, To: 40},
	})
	require.EqualValues(t, 50, step.total)
	require.Equal(t, 900*time.Millisecond, step.due(9))
	require.Equal(t, 2*time.Second, step.due(10))
	require.Equal(t, 2025*time.Millisecond, step.due(11))
}
