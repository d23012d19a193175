package detection

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// windows are snapshots that end every ten seconds from first on, named in turn.
func windows(first float64, named ...traffic.State) (all []traffic.Snapshot) {
	for i, n := range named {
		all = append(all, traffic.Snapshot{At: start.Add(sec(first + 10*float64(i))), Window: window, State: n, Requests: 400, RPS: 40})
	}
	return all
}

func ptr(v float64) *float64 { return &v }

// burstSeen is a burst as a proxy may have named it: spans low to 10 s, spike to 40 s, stable to 65 s.
func burstSeen() []traffic.Snapshot {
	return windows(-5, traffic.LowTraffic, traffic.HighStable, traffic.HighStable, traffic.Spike, traffic.Spike, traffic.Spike, traffic.HighStable, traffic.HighStable)
}

func TestAReportSetsWindowsAgainstTheTruth(t *testing.T) {
	shape := bundled(t, "burst")
	shape.HoldOut = true
	r, known := Of(shape, start, burstSeen())
	require.True(t, known)
	require.Equal(t, Report{Scenario: "burst", HoldOut: true, WindowS: 10, Windows: []Window{
		{5, traffic.LowTraffic, traffic.HighStable, ""},
		{15, "", traffic.HighStable, ""},
		{25, traffic.Spike, traffic.Spike, ""},
		{35, traffic.Spike, traffic.Spike, ""},
		{45, "", traffic.Spike, ""},
		{55, traffic.HighStable, traffic.HighStable, ""},
		{65, traffic.HighStable, traffic.HighStable, ""},
	}, Delays: []Delay{{traffic.Spike, 10, 40, ptr(1.5)}, {traffic.HighStable, 40, 65, ptr(1.5)}}}, r)

	m := Named(r, r)
	require.Equal(t, Matrix{
		traffic.LowTraffic: {traffic.HighStable: 2}, traffic.Spike: {traffic.Spike: 4}, traffic.HighStable: {traffic.HighStable: 4},
	}, m)
	require.Equal(t, []int{10, 8, 4, 2}, []int{m.Windows(), m.Agreed(), m.True(traffic.Spike), Across(r)})
	require.Empty(t, Classified(r))
}

func TestAStateThatIsNeverNamedHasNoDelay(t *testing.T) {
	r, _ := Of(bundled(t, "burst"), start, windows(5, traffic.LowTraffic, traffic.HighStable, traffic.HighStable, traffic.HighStable))
	require.Nil(t, r.Delays[0].Windows)
	// named, but only after it was over by more than a window
	r, _ = Of(bundled(t, "burst"), start, windows(5, traffic.HighStable, traffic.HighStable, traffic.HighStable, traffic.HighStable, traffic.HighStable, traffic.Spike))
	require.Nil(t, r.Delays[0].Windows)
}

func TestLabelsGoWithTheirWindows(t *testing.T) {
	r, _ := Of(bundled(t, "burst"), start, burstSeen())
	l := r.Labelled("gpt-4o", []traffic.State{traffic.LowTraffic, traffic.Spike, traffic.Spike})
	require.Empty(t, r.Windows[0].Classified, "the report is not changed")
	require.Equal(t, "gpt-4o", l.Classifier)
	require.Equal(t, Matrix{traffic.LowTraffic: {traffic.LowTraffic: 1}, traffic.Spike: {traffic.Spike: 1}}, Classified(l), "windows without a label are not counted")
	require.Equal(t, Named(r), Named(l))
}

func TestWhereThereIsNoTruthThereIsNoReport(t *testing.T) {
	_, known := Of(loadtest.Shape{Name: "a script"}, start, burstSeen())
	require.False(t, known)
	_, known = Of(bundled(t, "burst"), start, nil)
	require.False(t, known)
	_, known = Of(bundled(t, "burst"), start.Add(time.Hour), burstSeen())
	require.False(t, known, "the windows are another run's")
}

func TestAReportComesBackFromJSON(t *testing.T) {
	r, _ := Of(bundled(t, "burst"), start, burstSeen())
	r = r.Labelled("local", []traffic.State{traffic.LowTraffic})
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r, back)
}

func TestASummaryJoinsRunsByScenario(t *testing.T) {
	burst, _ := Of(bundled(t, "burst"), start, burstSeen())
	quicker := burst
	quicker.Delays = []Delay{{traffic.Spike, 10, 40, ptr(0.5)}, {traffic.HighStable, 40, 65, nil}}
	never := burst
	never.Delays = []Delay{{traffic.Spike, 10, 40, nil}, {traffic.HighStable, 40, 65, nil}}
	steady := bundled(t, "steady")
	steady.HoldOut = true
	held, _ := Of(steady, start, windows(5, traffic.HighStable, traffic.Spike, traffic.HighStable))

	s := Sum([]Report{burst.Labelled("local", []traffic.State{traffic.LowTraffic}), held, quicker, never}, []Report{held})
	require.Equal(t, []int{18, 14, 6}, []int{s.Champion.Windows, s.Champion.Agreed, s.Champion.Across}, "held-out scenarios are counted")
	require.Equal(t, Counts{Matrix{traffic.HighStable: {traffic.HighStable: 2, traffic.Spike: 1}}, 3, 2, 0}, s.Candidate)
	require.Equal(t, []any{"local", 1, 1}, []any{s.Classifier, s.Classified.Windows, s.Classified.Agreed})
	require.Equal(t, []Scenario{
		{"burst", false, Counts{Named(burst, burst, burst), 15, 12, 6}},
		{"steady", true, Counts{Named(held), 3, 2, 0}},
	}, s.Scenarios)
	require.Equal(t, []Delays{
		{"burst", traffic.Spike, 10, 40, 3, 1, ptr(0.5)}, // of 1.5 and 0.5
		{"burst", traffic.HighStable, 40, 65, 3, 2, ptr(1.5)},
	}, s.Delays)

	b, err := json.Marshal(Sum(nil, nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"champion":{"matrix":{},"windows":0,"agreed":0,"windows_across_two_states":0},
		"candidate":{"matrix":{},"windows":0,"agreed":0,"windows_across_two_states":0},
		"classified":{"matrix":{},"windows":0,"agreed":0,"windows_across_two_states":0},
		"classifier":"","scenarios":[],"delays":[],"suggestions":[]}`, string(b))
}
