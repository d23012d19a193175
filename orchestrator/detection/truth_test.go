package detection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

const window = 10 * time.Second

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func phase(seconds, from, to float64) loadtest.Phase {
	return loadtest.Phase{Duration: loadtest.Duration(sec(seconds)), From: from, To: to}
}

func event(at float64, action, backend string, value float64) loadtest.Event {
	return loadtest.Event{At: loadtest.Duration(sec(at)), Action: action, Backend: backend, Value: value}
}

func bundled(t *testing.T, name string) loadtest.Shape {
	t.Helper()
	s, err := loadtest.Load(name)
	require.NoError(t, err)
	return s
}

func TestTheTruthOfTheBundledScenarios(t *testing.T) {
	const low, stable, gradual, spike, overloaded = traffic.LowTraffic, traffic.HighStable, traffic.GradualIncrease, traffic.Spike, traffic.OverloadedNode
	for name, want := range map[string][]Span{
		"steady":  {{stable, 0, sec(40)}},
		"burst":   {{low, 0, sec(10)}, {spike, sec(10), sec(40)}, {stable, sec(40), sec(65)}},
		"gradual": {{stable, 0, sec(5)}, {gradual, sec(5), sec(45)}, {stable, sec(45), sec(55)}},
		"failure": {{stable, 0, sec(5)}, {overloaded, sec(5), sec(15)}, {stable, sec(15), sec(18)}, {overloaded, sec(18), sec(58)}, {stable, sec(58), sec(65)}},
	} {
		require.Equal(t, want, Truth(bundled(t, name), window), name)
	}
	quick := bundled(t, "burst").Scaled(loadtest.Quick) // windows are shortened with it
	require.Equal(t, []Span{{low, 0, sec(2)}, {spike, sec(2), sec(8)}, {stable, sec(8), sec(13)}}, Truth(quick, window/5))
	require.Nil(t, Truth(bundled(t, "reference"), window), "a closed loop has no timeline")
	require.Nil(t, Truth(loadtest.Shape{Name: "a script"}, window))
}

func TestWhatIsAStepARampAndLow(t *testing.T) {
	const low, stable, gradual, spike = traffic.LowTraffic, traffic.HighStable, traffic.GradualIncrease, traffic.Spike
	for _, c := range []struct {
		name   string
		phases []loadtest.Phase
		want   []Span
	}{
		{"a step by half", []loadtest.Phase{phase(50, 40, 40), phase(50, 60, 60)}, []Span{{stable, 0, sec(50)}, {spike, sec(50), sec(70)}, {stable, sec(70), sec(100)}}},
		{"a smaller step", []loadtest.Phase{phase(50, 40, 40), phase(50, 59, 59)}, []Span{{stable, 0, sec(100)}}},
		{"a step that falls back", []loadtest.Phase{phase(50, 40, 40), phase(5, 120, 120), phase(45, 40, 40)}, []Span{{stable, 0, sec(50)}, {spike, sec(50), sec(55)}, {stable, sec(55), sec(100)}}},
		{"a step that falls half-way", []loadtest.Phase{phase(50, 40, 40), phase(5, 120, 120), phase(45, 80, 80)}, []Span{{stable, 0, sec(50)}, {spike, sec(50), sec(70)}, {stable, sec(70), sec(100)}}},
		{"a step down", []loadtest.Phase{phase(50, 120, 120), phase(50, 40, 40)}, []Span{{stable, 0, sec(100)}}},
		{"a ramp within a window", []loadtest.Phase{phase(50, 40, 40), phase(10, 40, 80), phase(40, 80, 80)}, []Span{{stable, 0, sec(50)}, {spike, sec(50), sec(70)}, {stable, sec(70), sec(100)}}},
		{"a ramp", []loadtest.Phase{phase(50, 40, 48), phase(50, 48, 48)}, []Span{{gradual, 0, sec(50)}, {stable, sec(50), sec(100)}}},
		{"a flat ramp", []loadtest.Phase{phase(100, 40, 47)}, []Span{{stable, 0, sec(100)}}},
		{"a ramp down", []loadtest.Phase{phase(50, 48, 40), phase(50, 48, 48)}, []Span{{stable, 0, sec(100)}}},
		{"from nothing", []loadtest.Phase{phase(50, 0, 0), phase(50, 40, 40)}, []Span{{low, 0, sec(50)}, {spike, sec(50), sec(70)}, {stable, sec(70), sec(100)}}},
		{"a step within low traffic", []loadtest.Phase{phase(50, 2, 2), phase(50, 4, 4), phase(50, 50, 50)}, []Span{{low, 0, sec(100)}, {spike, sec(100), sec(120)}, {stable, sec(120), sec(150)}}},
		{"a ramp out of low traffic", []loadtest.Phase{phase(100, 0, 100)}, []Span{{low, 0, sec(10)}, {gradual, sec(10), sec(100)}}},
	} {
		require.Equal(t, c.want, Truth(loadtest.Shape{Phases: c.phases}, window), c.name)
	}
}

func TestABackendIsOverloadedUntilTheEventThatEndsIt(t *testing.T) {
	const stable, overloaded = traffic.HighStable, traffic.OverloadedNode
	for _, c := range []struct {
		name   string
		events []loadtest.Event
		want   []Span
	}{
		{"fail and revive", []loadtest.Event{event(20, "fail", "a", 0), event(40, "revive", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(40)}, {stable, sec(40), sec(100)}}},
		{"another's revival", []loadtest.Event{event(20, "fail", "a", 0), event(40, "revive", "b", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(100)}}},
		{"two at once", []loadtest.Event{event(20, "slowdown", "a", 3), event(30, "error_rate", "b", 0.5), event(40, "revive", "a", 0), event(60, "error_rate", "b", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(60)}, {stable, sec(60), sec(100)}}},
		{"no slowdown at all", []loadtest.Event{event(20, "slowdown", "a", 1)}, []Span{{stable, 0, sec(100)}}},
		{"in any order", []loadtest.Event{event(40, "revive", "a", 0), event(20, "fail", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(40)}, {stable, sec(40), sec(100)}}},
		{"slow, and told to make no errors", []loadtest.Event{event(20, "slowdown", "a", 3), event(30, "error_rate", "a", 0), event(60, "revive", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(60)}, {stable, sec(60), sec(100)}}},
		{"down, and told to be as quick as ever", []loadtest.Event{event(20, "fail", "a", 0), event(30, "slowdown", "a", 1), event(60, "revive", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(60)}, {stable, sec(60), sec(100)}}},
		{"slow and in error, ended one by one", []loadtest.Event{event(20, "slowdown", "a", 3), event(30, "error_rate", "a", 0.5), event(40, "slowdown", "a", 1), event(60, "error_rate", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(60)}, {stable, sec(60), sec(100)}}},
		{"everything at once, until it is revived", []loadtest.Event{event(20, "slowdown", "a", 3), event(20, "error_rate", "a", 0.5), event(20, "fail", "a", 0), event(40, "revive", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(40)}, {stable, sec(40), sec(100)}}},
		{"slower still", []loadtest.Event{event(20, "slowdown", "a", 2), event(30, "slowdown", "a", 4), event(40, "revive", "a", 0)}, []Span{{stable, 0, sec(20)}, {overloaded, sec(20), sec(40)}, {stable, sec(40), sec(100)}}},
	} {
		require.Equal(t, c.want, Truth(loadtest.Shape{Phases: []loadtest.Phase{phase(100, 50, 50)}, Events: c.events}, window), c.name)
	}
}

// What a slow backend measures is no sample of errors, and one that is both is a sample of each.
func TestSlownessAndErrorsAreHurtsOfTheirOwn(t *testing.T) {
	hurting := hurts(loadtest.Shape{Phases: []loadtest.Phase{phase(100, 50, 50)}, Events: []loadtest.Event{
		event(20, "slowdown", "a", 3), event(30, "error_rate", "a", 0.5), event(40, "error_rate", "a", 0), event(60, "revive", "a", 0)}})
	require.ElementsMatch(t, []hurt{{interval{sec(20), sec(60)}, "a", false}, {interval{sec(30), sec(40)}, "a", true}}, hurting)
}

func TestAWindowAcrossTwoStatesHasNoTruth(t *testing.T) {
	spans := Truth(bundled(t, "burst"), window) // low to 10 s, spike to 40 s
	for _, c := range []struct {
		from, to float64
		want     traffic.State
	}{
		{-4, 6, traffic.LowTraffic}, // the warm-up had the first phase's rate
		{0, 10, traffic.LowTraffic},
		{1, 11, traffic.LowTraffic}, // nine tenths
		{1.1, 11.1, ""},
		{5, 15, ""},
		{9.1, 19.1, traffic.Spike},
		{15, 25, traffic.Spike}, // the second step lies within
		{60, 70, ""},            // the load had ended
	} {
		require.Equal(t, c.want, truthOf(spans, sec(c.from), sec(c.to)), "%v", c)
	}
}
