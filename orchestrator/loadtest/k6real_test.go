package loadtest

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// realRunner is a runner with the k6 that is installed here, or a skip with the reason.
func realRunner(t *testing.T) *Runner {
	t.Helper()
	r, err := Choose(t.Context(), K6, Config{K6: os.Getenv("RETUNE_K6"), Scratch: t.TempDir()})
	if err != nil {
		t.Skip("no k6 to test with; the stand-in stands for it:", err)
	}
	return r
}

func TestARealK6MakesTheShapesLoad(t *testing.T) {
	r := realRunner(t)
	target := newSeen(t, func(http.ResponseWriter, *http.Request) {})
	shape := constant(100, 2*time.Second)
	got, err := r.Run(t.Context(), Scenario{Shape: shape, Target: target.URL, Warm: 500 * time.Millisecond, Seed: 3}, nil)
	require.NoError(t, err)
	require.Empty(t, got.Invalid)
	require.InDelta(t, 200, got.Requests, 2)
	require.Equal(t, K6, got.Driver)
	require.Contains(t, target.clients, clientAddress(3, 0, 50))
}

func TestARealK6FailsAndRevivesABackend(t *testing.T) {
	r := realRunner(t)
	control := newControl(t)
	s := Scenario{Shape: constant(100, 2*time.Second), Target: control.URL, Controls: map[string]string{"a": control.URL + "/control"}}
	s.Shape.Events = []Event{{At: Duration(time.Second), Action: ActionFail, Backend: "a"}}
	got, err := r.Run(t.Context(), s, nil)
	require.NoError(t, err)
	require.Empty(t, got.Invalid)
	require.Len(t, got.Marks, 1)
	require.Equal(t, "fail", got.Marks[0].Action)
	require.Equal(t, reviveBody, control.last())
}
