package detection

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// rated sets the windows' change rates, and the rps that follow from them.
func rated(all []traffic.Snapshot, rps float64, rates ...float64) []traffic.Snapshot {
	for i, r := range rates {
		rps *= 1 + r
		all[i].RPS, all[i].RPSChangeRate = rps, &r
	}
	return all
}

// stepped is a run with two steps up, at 50 s and at 100 s, the first by firstRate and the second by secondRate as the
// proxy saw them; between them the rate wavers.
func stepped(firstRate, secondRate float64) Observed {
	shape := loadtest.Shape{Name: "steps", Phases: []loadtest.Phase{phase(50, 40, 40), phase(50, 64, 64), phase(50, 110, 110)}}
	seen := rated(windows(5, make([]traffic.State, 15)...), 40,
		0, 0.05, -0.03, 0.41, 0.02, firstRate, 0.01, -0.02, 0.1, 0.03, secondRate, 0.02, 0, 0.01, -0.02)
	return Observed{Shape: shape, Started: start, Snapshots: seen}
}

func defaults() traffic.Detection { return rules.Default().Detection }

func only(t *testing.T, path string, all []Suggestion) (s Suggestion) {
	t.Helper()
	for _, x := range all {
		if x.Path == path {
			require.Empty(t, s.Path, "suggested twice")
			s = x
		}
	}
	return s
}

func TestASpikeRateIsSuggestedThatTellsStepsFromTheRest(t *testing.T) {
	s := only(t, "detection.spike_rate", Suggest(defaults(), []Observed{stepped(0.62, 0.7)}))
	require.Equal(t, Suggestion{
		Path: "detection.spike_rate", State: traffic.Spike, Now: "1", Better: "0.5", Cases: 2, Others: 9, Nearest: 0.62, Against: 0.41, WrongNow: 2,
		Why: "rps change rate at least 0.62 in 2 cases that truly were SPIKE, at most 0.41 in 9 others: 0.5 names 11 of 11 right, 1 names 9",
	}, s)
}

func TestAThresholdThatIsAsGoodStays(t *testing.T) {
	require.Empty(t, only(t, "detection.spike_rate", Suggest(defaults(), []Observed{stepped(1.2, 1.6)})))
	d := defaults()
	d.SpikeRate = 0.43 // at the edge of the gap, but no case is wrong
	require.Empty(t, only(t, "detection.spike_rate", Suggest(d, []Observed{stepped(0.62, 0.7)})))
}

// One true step is below a waver: no cut is right about both.
func TestTheCutWithTheFewestWrongIsTaken(t *testing.T) {
	s := only(t, "detection.spike_rate", Suggest(defaults(), []Observed{stepped(0.62, 0.7), stepped(0.2, 0.9)}))
	require.Equal(t, []any{"0.5", 4, 4, 1}, []any{s.Better, s.Cases, s.WrongNow, s.WrongThen})
	require.Equal(t, []float64{0.2, 0.41}, []float64{s.Nearest, s.Against})
	require.Contains(t, s.Why, "0.5 names 21 of 22 right, 1 names 18")
}

func TestOneCaseIsNoReason(t *testing.T) {
	o := stepped(0.62, 0.7)
	o.Shape.Phases = o.Shape.Phases[:2]
	require.Empty(t, only(t, "detection.spike_rate", Suggest(defaults(), []Observed{o})))
	require.Empty(t, Suggest(defaults(), nil))
	require.Empty(t, Suggest(defaults(), []Observed{{Shape: o.Shape, Started: start}}))
}

// Where every case and every other has the same value, no threshold tells them apart: not even one that names most right.
func TestOneValueIsNoReason(t *testing.T) {
	shape := loadtest.Shape{Name: "ramp", Phases: []loadtest.Phase{phase(50, 40, 90), phase(30, 90, 90)}}
	seen := rated(windows(10, make([]traffic.State, 8)...), 40, slices.Repeat([]float64{0.1}, 8)...)
	require.Empty(t, only(t, "detection.gradual_increase_rate", Suggest(defaults(), []Observed{{shape, start, seen}})))
}

func TestARampsRateIsSuggested(t *testing.T) {
	shape := loadtest.Shape{Name: "ramp", Phases: []loadtest.Phase{phase(50, 40, 40), phase(50, 40, 90), phase(50, 90, 90)}}
	seen := rated(windows(10, make([]traffic.State, 15)...), 40, 0, 0.04, -0.02, 0.01, 0.02, 0.22, 0.24, 0.2, 0.17, 0.15, 0.05, 0, 0.01, 0, -0.01)
	s := only(t, "detection.gradual_increase_rate", Suggest(defaults(), []Observed{{shape, start, seen}}))
	require.Equal(t, []any{"0.3", "0.1", 5, 0}, []any{s.Now, s.Better, s.WrongNow, s.WrongThen})
}

func TestLowTrafficIsSuggestedFromBelow(t *testing.T) {
	shape := loadtest.Shape{Name: "night", Phases: []loadtest.Phase{phase(50, 9, 9), phase(50, 100, 100)}}
	seen := rated(windows(10, make([]traffic.State, 10)...), 9, 0, 0.02, -0.01, 0, 0, 9, 0.02, 0, 0.01, 0)
	s := only(t, "detection.low_traffic_rps", Suggest(defaults(), []Observed{{shape, start, seen}}))
	require.Equal(t, []any{"5", 5, 0}, []any{s.Now, s.WrongNow, s.WrongThen})
	require.Equal(t, "50", s.Better)
	require.InDelta(t, 9.18, s.Nearest, 0.01)
	require.Greater(t, s.Against, 80.0)
	require.Contains(t, s.Why, "rps at most 9.2 rps in 5 cases that truly were LOW_TRAFFIC, at least 9")
}

// hurtSeen is ten windows with two backends; from the fifth on server-2 has these figures.
func hurtSeen(hurt traffic.BackendSnapshot) []traffic.Snapshot {
	seen := rated(windows(10, make([]traffic.State, 10)...), 80, make([]float64, 10)...)
	for i := range seen {
		well := traffic.BackendSnapshot{ID: "server-1", Requests: 200, AvgLatencyMS: 60 + float64(i), LongAvgLatencyMS: 60}
		other := traffic.BackendSnapshot{ID: "server-2", Requests: 200, AvgLatencyMS: 150 + float64(i), LongAvgLatencyMS: 150}
		if i >= 5 {
			hurt.ID, hurt.Requests = "server-2", 200
			other = hurt
		}
		seen[i].Backends = []traffic.BackendSnapshot{well, other}
	}
	return seen
}

func TestOverloadIsSuggestedFromTheBackendThatWasHarmed(t *testing.T) {
	shape := func(action string, value float64) loadtest.Shape {
		return loadtest.Shape{Name: "failure", Phases: []loadtest.Phase{phase(100, 80, 80)}, Events: []loadtest.Event{event(50, action, "server-2", value)}}
	}
	fails := hurtSeen(traffic.BackendSnapshot{Errors: 12, ErrorRate: 0.06, AvgLatencyMS: 150, LongAvgLatencyMS: 150})
	s := only(t, "detection.overload_error_rate", Suggest(defaults(), []Observed{{shape("error_rate", 0.06), start, fails}}))
	require.Equal(t, []any{"0.1", "0.03", 5, 10, 5, 0}, []any{s.Now, s.Better, s.Cases, s.Others, s.WrongNow, s.WrongThen})
	require.Contains(t, s.Why, "a backend's error rate at least 6.0% in 5 cases that truly were OVERLOADED_NODE, at most 0.0% in 10 others")

	// slow by 2.6 times its usual, and under the 500 ms that the bound asks for
	slow := hurtSeen(traffic.BackendSnapshot{AvgLatencyMS: 390, LongAvgLatencyMS: 150})
	suggested := Suggest(defaults(), []Observed{{shape("slowdown", 2.6), start, slow}})
	require.Empty(t, only(t, "detection.overload_latency", suggested), "nobody else was past the factor: there is nothing to tell it from")
	for i := range slow[:5] { // server-1 trips the factor in calm windows, being quick
		slow[i].Backends[0].AvgLatencyMS = 130
	}
	s = only(t, "detection.overload_latency", Suggest(defaults(), []Observed{{shape("slowdown", 2.6), start, slow}}))
	require.Equal(t, []any{"500ms", "300ms", 5, 0}, []any{s.Now, s.Better, s.WrongNow, s.WrongThen})

	d := defaults()
	d.OverloadLatencyFactor = 4
	crawls := hurtSeen(traffic.BackendSnapshot{AvgLatencyMS: 700, LongAvgLatencyMS: 233})
	for i := range crawls {
		crawls[i].Backends[0].AvgLatencyMS, crawls[i].Backends[0].LongAvgLatencyMS = 620, 600 // slow by nature
	}
	s = only(t, "detection.overload_latency_factor", Suggest(d, []Observed{{shape("slowdown", 3), start, crawls}}))
	require.Equal(t, []any{"4", "2", 5, 0}, []any{s.Now, s.Better, s.WrongNow, s.WrongThen})
	require.Contains(t, s.Why, "at least 3.00× in 5 cases")
}

func TestAHandfulOfRequestsIsNoCase(t *testing.T) {
	seen := hurtSeen(traffic.BackendSnapshot{Errors: 3, ErrorRate: 0.6})
	for i := range seen[5:] {
		seen[5+i].Backends[1].Requests = traffic.MinVolume - 1
	}
	shape := loadtest.Shape{Name: "failure", Phases: []loadtest.Phase{phase(100, 80, 80)}, Events: []loadtest.Event{event(50, "fail", "server-2", 0)}}
	require.Empty(t, Suggest(defaults(), []Observed{{shape, start, seen}}))
}

// What is suggested is what the proxy would then name right: the threshold is used as the proxy uses it.
func TestASuggestionDoesInTheProxyWhatItSays(t *testing.T) {
	o := stepped(0.62, 0.7)
	d := defaults()
	right := func() (n int) {
		for _, at := range []int{5, 10} { // the windows that show the steps
			if traffic.Classify(d, o.Snapshots[at]).State == traffic.Spike {
				n++
			}
		}
		return n
	}
	require.Equal(t, 0, right())
	better, err := strconv.ParseFloat(only(t, "detection.spike_rate", Suggest(d, []Observed{o})).Better, 64)
	require.NoError(t, err)
	d.SpikeRate = better
	require.Equal(t, 2, right())
}

func TestAValueBetweenTwoHasFewDigits(t *testing.T) {
	for _, c := range [][3]float64{{0.41, 0.62, 0.5}, {9, 91, 50}, {130, 390, 300}, {0, 0.06, 0.03}, {1.031, 1.032, 1.0315}, {-0.02, 0.05, 0.02}} {
		require.InDelta(t, c[2], between(c[0], c[1]), 1e-12, "%v", c)
	}
}
