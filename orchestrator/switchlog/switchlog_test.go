package switchlog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

const length = 10 * time.Second

func run() loadtest.Result {
	return loadtest.Result{Scenario: "burst", Started: start, Duration: 120 * time.Second}
}

func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// snapshot is a window of 500 requests that ends at second s.
func snapshot(s, p95, errors float64) traffic.Snapshot {
	return traffic.Snapshot{At: at(s), Window: length, Requests: 500, Errors: uint64(500 * errors), RPS: 50, P95MS: p95, ErrorRate: errors}
}

// quiet is windows from second 0 to 120 whose p95 goes up and down by 2% around 400 ms, and around after from second 60.
func quiet(after, errors float64) (all []traffic.Snapshot) {
	for s := 10.0; s <= 120; s += 10 {
		p95, share := 400.0, 0.01
		if s > 60 {
			p95, share = after, errors
		}
		if int(s)%20 == 0 {
			p95 *= 1.02
		}
		all = append(all, snapshot(s, p95, share))
	}
	return all
}

func decided(s float64, cause steering.Cause, switched bool) steering.Decision {
	return steering.Decision{
		At: at(s), Cause: cause, Switched: switched, State: traffic.Spike, Confidence: 0.9,
		PreviousAlgorithm: balance.RoundRobin, Algorithm: balance.LeastConnections, Snapshot: snapshot(s, 400, 0.01),
	}
}

// journal is what a proxy decided: what is given, and to hold in each other window.
func journal(decisions []steering.Decision, snapshots []traffic.Snapshot) []steering.Decision {
	all := slices.Clone(decisions)
	for i := range all {
		all[i].Snapshot = traffic.Snapshot{Window: length}
	}
	for _, s := range snapshots {
		at := func(d steering.Decision) bool { return d.At.Equal(s.At) && d.Cause == steering.CauseWindow }
		if i := slices.IndexFunc(all, at); i >= 0 {
			all[i].Snapshot = s
		} else {
			all = append(all, steering.Decision{At: s.At, Cause: steering.CauseWindow, Snapshot: s})
		}
	}
	return all
}

// of is the same of the proxy with that boot.
func of(boot string, decisions []steering.Decision) []steering.Decision {
	decisions = slices.Clone(decisions)
	for i := range decisions {
		decisions[i].BootID = boot
	}
	return decisions
}

var switched = []steering.Decision{decided(60, steering.CauseWindow, true)}

// analysed is the switches of one run alone.
func analysed(r loadtest.Result, decisions []steering.Decision) []Switch {
	return Analyse([]loadtest.Result{r}, decisions)[0]
}

// one analyses a run with one switch.
func one(t *testing.T, r loadtest.Result, decisions []steering.Decision, snapshots []traffic.Snapshot) Switch {
	t.Helper()
	got := analysed(r, journal(decisions, snapshots))
	require.NotEmpty(t, got)
	return got[0]
}

func TestASwitchIsComparedWithWindowsOfItsLoadOnBothSides(t *testing.T) {
	snapshots := quiet(200, 0.01)
	snapshots[0], snapshots[9] = snapshots[9], snapshots[0] // their order does not matter
	require.Equal(t, Switch{
		Scenario: "burst", AtS: 60, State: traffic.Spike, From: balance.RoundRobin, To: balance.LeastConnections, Confident: 0.9,
		Before: Figures{Offered: 50, RPS: 50, P95MS: 408, ErrorRate: 0.01}, After: Figures{Offered: 50, RPS: 50, P95MS: 200, ErrorRate: 0.01},
		Windows: 3, Outcome: Paid, Why: "p95 408 → 200 ms (-51%), beyond the ±10% that neighbouring windows of the same load differ by",
	}, one(t, run(), switched, snapshots))
}

func TestWhatPays(t *testing.T) {
	for _, c := range []struct {
		name        string
		p95, errors float64
		want        Outcome
		why         string
	}{
		{"p95 a third lower", 260, 0.01, Paid, "p95 408 → 260 ms (-36%), beyond"},
		{"p95 within noise", 376, 0.01, Unclear, "within the ±10%"},
		{"p95 higher", 600, 0.01, Cost, "p95 408 → 600 ms (+47%), beyond"},
		{"p95 lower, but errors", 200, 0.05, Cost, "errors 1.0% → 5.0%"},
		{"errors gone, p95 higher", 500, 0, Paid, "errors 1.0% → 0.0%"},
		{"nothing answered in time", 0, 0.01, Unclear, "nothing was answered"},
	} {
		got := one(t, run(), switched, quiet(c.p95, c.errors))
		require.Equal(t, c.want, got.Outcome, c.name)
		require.Contains(t, got.Why, c.why, c.name)
	}
}

// The same difference is a gain in a quiet run and nothing in a restless one.
func TestADifferenceCountsBeyondTheRunsOwnNoise(t *testing.T) {
	snapshots := quiet(300, 0.01)
	require.Equal(t, Paid, one(t, run(), switched, snapshots).Outcome)
	for i := range snapshots {
		snapshots[i].P95MS *= []float64{0.7, 1.3, 1}[i%3]
	}
	got := one(t, run(), switched, snapshots)
	require.Equal(t, Unclear, got.Outcome, got.Why)
	require.Contains(t, got.Why, "within the ±")
}

func TestLessOfTheLoadAnsweredIsACost(t *testing.T) {
	r := run()
	for range 120 {
		r.Series = append(r.Series, loadtest.Second{Requests: 50})
	}
	snapshots := quiet(400, 0.01)
	for i := range snapshots[6:] {
		snapshots[6+i].RPS = 35
	}
	got := one(t, r, switched, snapshots)
	require.Equal(t, Cost, got.Outcome)
	require.Equal(t, "-30% of the load answered, beyond the ±10% that neighbouring windows differ by", got.Why)
}

// A burst raises p95 by itself: windows of another load are no measure of a switch.
func TestALoadThatChangedTooIsNoMeasure(t *testing.T) {
	r := run()
	for i := range 120 {
		r.Series = append(r.Series, loadtest.Second{Requests: map[bool]int64{true: 50, false: 150}[i < 60]})
	}
	got := one(t, r, switched, quiet(800, 0.01))
	require.Equal(t, Unclear, got.Outcome)
	require.Equal(t, "the load itself went from 50.0 to 150.0 rps: no window before the switch had the load that came after it", got.Why)
	require.InDelta(t, 800, got.After.P95MS, 20, "the nearest windows are told all the same")

	for i := 40; i < 60; i++ { // the burst began 20 s before the switch: two windows have its load
		r.Series[i].Requests = 150
	}
	got = one(t, r, switched, quiet(800, 0.01))
	require.Equal(t, []any{Cost, 2}, []any{got.Outcome, got.Windows}, got.Why)
}

func TestWhatIsTooNearMakesItUnclear(t *testing.T) {
	for name, c := range map[string]struct {
		decisions []steering.Decision
		marks     []loadtest.Mark
		why       string
	}{
		"the run's end":          {[]steering.Decision{decided(115, steering.CauseWindow, true)}, nil, "the run ended 5.0 s after it, before a whole window had passed"},
		"the run's beginning":    {[]steering.Decision{decided(5, steering.CauseWindow, true)}, nil, "the run began 5.0 s before it: no whole window lies between"},
		"another switch after":   {[]steering.Decision{switched[0], decided(65, steering.CauseWindow, true)}, nil, "the algorithm changed 5.0 s after it, before a whole window had passed"},
		"a reload after":         {[]steering.Decision{switched[0], decided(66, steering.CauseReload, false)}, nil, "the algorithm changed 6.0 s after it"},
		"a backend that fails":   {switched, []loadtest.Mark{{At: 62 * time.Second, Action: "fail", Detail: "server-1"}}, "the scenario made a change (fail server-1) 2.0 s after it"},
		"a backend that is back": {switched, []loadtest.Mark{{At: 55 * time.Second, Action: "revive", Detail: "server-1"}}, "the scenario made a change (revive server-1) 5.0 s before it"},
	} {
		r := run()
		r.Marks = c.marks
		got := one(t, r, c.decisions, quiet(200, 0.01))
		require.Equal(t, Unclear, got.Outcome, name)
		require.Contains(t, got.Why, c.why, name)
	}
	both := analysed(run(), journal([]steering.Decision{decided(53, steering.CauseWindow, true), switched[0]}, quiet(200, 0.01)))
	require.Len(t, both, 2)
	require.Contains(t, both[1].Why, "the algorithm changed 7.0 s before it")
	r := run() // an event that could not be made to happen changed nothing
	r.Marks = []loadtest.Mark{{At: 55 * time.Second, Action: "fail", Detail: "server-1", Failed: true}}
	require.Equal(t, Paid, one(t, r, switched, quiet(200, 0.01)).Outcome)
}

// What one run is too short to tell, the scenario's other runs do, and six pairs of other scenarios'; not windows of another length.
func TestNoiseIsKnownFromAllRuns(t *testing.T) {
	short := journal(switched, []traffic.Snapshot{snapshot(50, 400, 0.01), snapshot(60, 400, 0.01), snapshot(70, 200, 0.01)})
	other := func(scenario string, windows int, w time.Duration) (loadtest.Result, []steering.Decision) {
		r := run()
		r.Scenario, r.Started = scenario, start.Add(time.Hour)
		of := quiet(400, 0.01)[:windows]
		for i := range of {
			of[i].At, of[i].Window = r.Started.Add(time.Duration(i+1)*w), w
		}
		return r, journal(nil, of)
	}
	for _, c := range []struct {
		scenario string
		windows  int
		length   time.Duration
		known    bool
	}{
		{"burst", 3, length, true}, {"burst", 2, length, false}, {"steady", 6, length, true}, {"steady", 5, length, false}, {"burst", 12, length / 2, false}, // one pair is the run's own
	} {
		r, decisions := other(c.scenario, c.windows, c.length)
		got := Analyse([]loadtest.Result{run(), r}, append(decisions, short...))
		require.Len(t, got[0], 1)
		require.Empty(t, got[1])
		want := Unclear
		if c.known {
			want = Paid
		}
		require.Equal(t, want, got[0][0].Outcome, "%+v: %s", c, got[0][0].Why)
	}
}

func TestTwoWindowsAreNoNoise(t *testing.T) {
	got := one(t, run(), switched, []traffic.Snapshot{snapshot(50, 400, 0), snapshot(60, 400, 0), snapshot(70, 100, 0)})
	require.Equal(t, Unclear, got.Outcome)
	require.Equal(t, "fewer than 3 pairs of neighbouring windows without a change: what noise does here is not known", got.Why)
}

func TestWhatIsNoSwitchIsLeftOut(t *testing.T) {
	for name, decisions := range map[string][]steering.Decision{
		"held":                  {decided(40, steering.CauseWindow, false)},
		"by a reload":           {decided(40, steering.CauseReload, true)},
		"by a reset":            {decided(40, steering.CauseReset, true)},
		"by a change of mode":   {decided(40, steering.CauseMode, true)},
		"adopted after a reset": {decided(30, steering.CauseReset, false), decided(40, steering.CauseWindow, true)},
		"in the warm phase":     {decided(-5, steering.CauseWindow, true)},
		"after the run":         {decided(125, steering.CauseWindow, true)},
	} {
		require.Empty(t, analysed(run(), journal(decisions, quiet(200, 0.01))), name)
	}
	later := []steering.Decision{decided(20, steering.CauseReset, false), decided(40, steering.CauseWindow, true)}
	require.Len(t, analysed(run(), journal(later, quiet(200, 0.01))), 1)
}

// The proxy's timer is a little early or late: windows overlap by milliseconds.
func TestWindowsMayOverlapALittle(t *testing.T) {
	snapshots := quiet(200, 0.01)
	for i := range snapshots {
		snapshots[i].At = snapshots[i].At.Add(time.Duration(i%3-1) * 20 * time.Millisecond)
	}
	got := one(t, run(), switched, snapshots)
	require.Equal(t, Paid, got.Outcome, got.Why)
}

// Each proxy balances by itself: what another one measured at the same time, or did, says nothing about a switch.
func TestASwitchIsJudgedByItsOwnProxysWindows(t *testing.T) {
	halves, stays := quiet(200, 0.01), quiet(400, 0.01)
	for name, c := range map[string]struct {
		switching []traffic.Snapshot
		others    []steering.Decision
		want      Outcome
	}{
		"the other's p95 stays": {halves, journal(nil, stays), Paid},
		"the other's p95 falls": {stays, journal(nil, halves), Unclear},
		"the other is reset":    {halves, journal([]steering.Decision{decided(55, steering.CauseReset, false)}, stays), Paid},
	} {
		got := analysed(run(), append(of("b", c.others), of("a", journal(switched, c.switching))...))
		require.Len(t, got, 1, name)
		require.Equal(t, []any{c.want, 3}, []any{got[0].Outcome, got[0].Windows}, "%s: %s", name, got[0].Why)
	}
}

// An idle run, or none at all, is no reason to fail.
func TestNothingIsAnalysed(t *testing.T) {
	require.Empty(t, analysed(loadtest.Result{}, nil))
	idle := quiet(0, 0)
	for i := range idle {
		idle[i].Requests, idle[i].RPS, idle[i].Errors, idle[i].P95MS = 0, 0, 0, 0
	}
	got := one(t, run(), switched, idle)
	require.Equal(t, Unclear, got.Outcome)
	require.NotContains(t, fmt.Sprint(got), "NaN")
}
