package switchlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

const window = 10 * time.Second

func run() loadtest.Result {
	return loadtest.Result{Scenario: "burst", Started: start, Duration: 120 * time.Second}
}

func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

func snapshot(s, p95, errors float64) traffic.Snapshot {
	return traffic.Snapshot{At: at(s), Window: window, Requests: 500, RPS: 50, P95MS: p95, ErrorRate: errors}
}

func decided(s float64, cause steering.Cause, switched bool) steering.Decision {
	return steering.Decision{
		At: at(s), Cause: cause, Switched: switched, State: traffic.Spike, Confidence: 0.9,
		PreviousAlgorithm: balance.RoundRobin, Algorithm: balance.LeastConnections, Snapshot: snapshot(s, 400, 0.01),
	}
}

func TestASwitchIsComparedWithTheFirstWholeWindowAfterIt(t *testing.T) {
	// 45 s ends a window that is half old: it is passed over. Order does not matter.
	got := Analyse(run(), []steering.Decision{decided(40, steering.CauseWindow, true)},
		[]traffic.Snapshot{snapshot(50, 200, 0.01), snapshot(45, 999, 0.5), snapshot(60, 100, 0)})
	require.Equal(t, []Switch{{
		Scenario: "burst", AtS: 40, State: traffic.Spike, From: balance.RoundRobin, To: balance.LeastConnections,
		Before: Figures{50, 400, 0.01}, After: Figures{50, 200, 0.01}, PaidOff: true, Confident: 0.9,
	}}, got)
}

func TestWhatPaysOff(t *testing.T) {
	for _, c := range []struct {
		name        string
		p95, errors float64
		want        bool
	}{
		{"p95 a third lower", 260, 0.01, true},
		{"p95 within noise", 370, 0.01, false},
		{"p95 higher", 600, 0.01, false},
		{"p95 lower, but errors", 200, 0.05, false},
		{"errors gone, p95 higher", 500, 0, true},
	} {
		got := Analyse(run(), []steering.Decision{decided(40, steering.CauseWindow, true)}, []traffic.Snapshot{snapshot(50, c.p95, c.errors)})
		require.Len(t, got, 1)
		require.Equal(t, c.want, got[0].PaidOff, c.name)
	}
}

func TestWhatIsNoSwitchIsLeftOut(t *testing.T) {
	after := []traffic.Snapshot{snapshot(50, 200, 0), snapshot(60, 200, 0), snapshot(110, 200, 0)}
	for name, decisions := range map[string][]steering.Decision{
		"held":                      {decided(40, steering.CauseWindow, false)},
		"by a reload":               {decided(40, steering.CauseReload, true)},
		"by a reset":                {decided(40, steering.CauseReset, true)},
		"by a change of mode":       {decided(40, steering.CauseMode, true)},
		"adopted after a reset":     {decided(30, steering.CauseReset, false), decided(40, steering.CauseWindow, true)},
		"in the warm phase":         {decided(-5, steering.CauseWindow, true)},
		"after the run":             {decided(125, steering.CauseWindow, true)},
		"no whole window in time":   {decided(115, steering.CauseWindow, true)},
		"another reset in between":  {decided(40, steering.CauseWindow, true), decided(45, steering.CauseReset, false)},
		"another switch in between": {decided(40, steering.CauseWindow, true), decided(45, steering.CauseMode, true)},
	} {
		require.Empty(t, Analyse(run(), decisions, after), name)
	}
	later := []steering.Decision{decided(20, steering.CauseReset, false), decided(40, steering.CauseWindow, true)}
	require.Len(t, Analyse(run(), later, after), 1)
}

func TestAnIdleWindowProvesNothing(t *testing.T) {
	idle := snapshot(50, 0, 0)
	idle.Requests = 0
	require.Empty(t, Analyse(run(), []steering.Decision{decided(40, steering.CauseWindow, true)}, []traffic.Snapshot{idle}))
}
