package advisor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/detection"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

func suggestion(path, now, better string, wrongNow int) detection.Suggestion {
	return detection.Suggestion{
		Path: path, State: traffic.Spike, Now: now, Better: better, Cases: 4, Others: 22, Nearest: 0.62, Against: 0.41, WrongNow: wrongNow,
		Why: "rps change rate at least 0.62 in 4 cases that truly were SPIKE, at most 0.41 in 22 others: " + better + " names 26 of 26 right, " + now + " names 23",
	}
}

// settled is evidence that speaks for no other algorithm, with suggestions.
func settled(list ...detection.Suggestion) Evidence {
	e := evidence()
	e.Algorithms = nil
	for _, m := range e.Scenarios {
		m.Algorithm = balance.RoundRobin
		e.Algorithms = append(e.Algorithms, m)
	}
	e.Detection = &Detection{
		Named:       detection.Matrix{traffic.Spike: {traffic.HighStable: 3, traffic.Spike: 1}, traffic.HighStable: {traffic.HighStable: 22}},
		Suggestions: list,
	}
	return e
}

func TestLocalTriesTheThresholdThatMendsMost(t *testing.T) {
	e := settled(suggestion("detection.gradual_increase_rate", "0.3", "0.25", 1), suggestion("detection.spike_rate", "1", "0.5", 3))
	a := advised(t, e)
	require.Equal(t, []string{"detection.spike_rate: 1 → 0.5"}, Changes(e.Champion, a.Rules), "one at a time, or the verdict is of neither")
	last := a.Reasons[len(a.Reasons)-1]
	require.Equal(t, "detection.spike_rate", last.Path)
	require.Equal(t, "detection.spike_rate 1 → 0.5: rps change rate at least 0.62 in 4 cases that truly were SPIKE, at most 0.41 in 22 others: "+
		"0.5 names 26 of 26 right, 1 names 23.", last.Text)
	require.Empty(t, last.Unsupported)
	require.InDelta(t, 1, e.Champion.Detection.SpikeRate, 0, "the evidence is not changed")
}

func TestLocalLeavesThresholdsAlone(t *testing.T) {
	spike := suggestion("detection.spike_rate", "1", "0.5", 3)
	better := evidence() // speaks for another algorithm in SPIKE
	better.Detection = settled(spike).Detection
	alike := settled(spike)
	alike.Champion.Rules = map[traffic.State]rules.Rule{}
	for _, s := range traffic.States() {
		alike.Champion.Rules[s] = rules.Rule{Algorithm: balance.RoundRobin, Reason: "everywhere"}
	}
	lower := rules.Default()
	lower.Detection.SpikeRate = 0.55
	tried := settled(spike)
	tried.Tried = []Attempt{{Version: 7, Outcome: "rolled_back", Changes: Changes(tried.Champion, lower)}}
	for name, e := range map[string]Evidence{
		"a rule is better":                {Champion: better.Champion, Scenarios: better.Scenarios, Algorithms: better.Algorithms, Detection: better.Detection},
		"every state has one algorithm":   alike,
		"it was rolled back":              tried,
		"nothing is known":                settled(),
		"a threshold that isn't there":    settled(suggestion("detection.mood", "1", "0.5", 3)),
		"a value that is none":            settled(suggestion("detection.spike_rate", "1", "much", 3)),
		"a value that the rules refuse":   settled(suggestion("detection.spike_rate", "1", "0.2", 3)), // below gradual_increase_rate
		"a value out of range":            settled(suggestion("detection.spike_rate", "1", "1e9", 3)),
		"it is what the champion has now": settled(suggestion("detection.spike_rate", "1", "1", 3)),
	} {
		for _, c := range Changes(e.Champion, advised(t, e).Rules) {
			require.False(t, strings.HasPrefix(c, "detection."), "%s: %s", name, c)
		}
	}
	inconclusive := settled(spike) // may be tried again
	inconclusive.Tried = []Attempt{{Version: 7, Outcome: "inconclusive", Changes: []string{"detection.spike_rate: 1 → 0.5"}}}
	require.Len(t, Changes(inconclusive.Champion, advised(t, inconclusive).Rules), 1)
}

func TestAGeneratorIsToldOfDetectionWithinItsBound(t *testing.T) {
	e := settled(suggestion("detection.spike_rate", "1", "0.5", 3))
	text := Compact(e)
	require.Contains(t, text, `"windows_true_state_then_named_state":{"HIGH_STABLE":{"HIGH_STABLE":22},"SPIKE":{"HIGH_STABLE":3,"SPIKE":1}}`)
	require.Contains(t, text, "at least 0.62 in 4 cases")
	full := detection.Matrix{}
	for _, truth := range traffic.States() {
		full[truth] = map[traffic.State]int{}
		for _, s := range traffic.States() {
			full[truth][s] = 12345
		}
	}
	e.Detection.Named = full
	for range 50 {
		e.Detection.Suggestions = append(e.Detection.Suggestions, suggestion(strings.Repeat("x", 5000), strings.Repeat("y", 5000), strings.Repeat("z", 5000), 1))
	}
	text = Compact(e)
	require.LessOrEqual(t, Tokens(text), MaxTokens)
	require.Contains(t, text, "measured_under_champion")
}
