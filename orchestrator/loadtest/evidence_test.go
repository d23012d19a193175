package loadtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/loadtest/k6test"
)

// played runs a scenario of a known plan on a k6 that goes the way of the kind.
func played(t *testing.T, k k6test.Kind) (loadtest.Result, error) {
	t.Helper()
	steady, err := loadtest.Load("steady")
	require.NoError(t, err)
	s := loadtest.Scenario{Shape: steady.Scaled(loadtest.Quick), Target: "http://127.0.0.1:1", Warm: time.Second}
	r, err := loadtest.Choose(t.Context(), loadtest.K6, loadtest.Config{K6: k.Program(t, s.Shape, 100), Scratch: t.TempDir()})
	require.NoError(t, err)
	return r.Run(t.Context(), s, nil)
}

func TestASoundRunIsEvidence(t *testing.T) {
	r, err := played(t, k6test.Sound)
	require.NoError(t, err)
	require.Empty(t, r.Invalid)
	require.Equal(t, r.Planned, r.Requests)
	require.InEpsilon(t, 95, r.P95MS, 0.01)
	require.EqualValues(t, 80, r.RPS)
	for _, c := range r.Health() {
		require.Equal(t, loadtest.Sound, c.State, c)
	}
}

func TestEveryKindOfRunThatIsNoEvidenceSaysSo(t *testing.T) {
	for _, k := range k6test.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			r, err := played(t, k)
			if k.Refused {
				require.ErrorContains(t, err, k.Want)
				return
			}
			require.NoError(t, err)
			if k.Costly {
				require.Greater(t, r.DriverCPU, 0.05, "it burns what it gets, on any machine")
			}
			if k.Costly && r.DriverCPU <= 0.8 {
				t.Skip("this machine is too busy to give a driver most of a core")
			}
			require.Contains(t, strings.Join(r.Invalid, " "), k.Want)
			require.Equal(t, k.Failing, r.FailedThroughout())
		})
	}
}

// What the steps of a clock do to a run's length and second by second is checked where it is no kind of its own.
func TestARunInWhichAllWasSentTookWhatWasPlanned(t *testing.T) {
	for _, k := range k6test.Kinds {
		if k.Name == "a clock that is set back" {
			r, err := played(t, k)
			require.NoError(t, err)
			require.Equal(t, 8*time.Second, r.Duration)
			require.EqualValues(t, 80, r.RPS)
			return
		}
	}
	t.Fatal("no such kind")
}
