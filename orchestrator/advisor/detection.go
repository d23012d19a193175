package advisor

import (
	"cmp"
	"slices"
	"strings"

	"retune/orchestrator/detection"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// Detection is what a generator is told of how traffic states were named in the baseline, against the truth that the
// scenarios' timelines give; held-out scenarios are not in it.
type Detection struct {
	Named      detection.Matrix `json:"named"`                // by the proxy: truth → named → windows
	Classified detection.Matrix `json:"classified,omitempty"` // by the classifier, likewise
	Classifier string           `json:"classifier,omitempty"` // model name, or "local"
	Across     int              `json:"windows_across_two_states"`
	// Suggestions are thresholds that would have told the states apart better. They are cuts through what was seen, not
	// yet proved to make anything faster.
	Suggestions []detection.Suggestion `json:"suggestions,omitempty"`
}

// suggested changes the one threshold of the champion that would mend most of what was named wrongly, and says why;
// false: no suggestion is worth a trial. One at a time, so that the verdict is of it alone. Left out are those that no
// rule would notice, because every state has one algorithm; those that were tried from the same value and rolled back;
// and those that make the rule set one that a cycle refuses.
func suggested(e Evidence) (rules.RuleSet, ruleversions.Reason, bool) {
	if e.Detection == nil || !distinguishes(e.Champion) {
		return e.Champion, ruleversions.Reason{}, false
	}
	list := slices.Clone(e.Detection.Suggestions)
	slices.SortStableFunc(list, func(a, b detection.Suggestion) int {
		return cmp.Compare(b.WrongNow-b.WrongThen, a.WrongNow-a.WrongThen)
	})
	for _, s := range list {
		t, known := thresholdAt(s.Path)
		out := e.Champion
		if !known || wasRolledBack(e, t) || t.set(&out, s.Better) != nil {
			continue
		}
		if checked, err := validated(out); err == nil && len(rules.Refused(rules.Lint(checked))) == 0 {
			return out, ruleversions.Reason{Path: s.Path, Text: s.Path + " " + s.Now + " → " + s.Better + ": " + s.Why + "."}, true
		}
	}
	return e.Champion, ruleversions.Reason{}, false
}

// distinguishes reports whether any two states have different rules.
func distinguishes(r rules.RuleSet) bool {
	first := r.Rules[traffic.States()[0]]
	for _, s := range traffic.States() {
		if r.Rules[s].Algorithm != first.Algorithm || r.Rules[s].Params != first.Params {
			return true
		}
	}
	return false
}

// wasRolledBack reports whether a change of the threshold from its present value was judged worse before.
func wasRolledBack(e Evidence, t threshold) bool {
	return slices.ContainsFunc(e.Tried, func(a Attempt) bool {
		return a.Outcome == "rolled_back" && slices.ContainsFunc(a.Changes, func(c string) bool {
			return strings.HasPrefix(c, t.changedFrom(e.Champion))
		})
	})
}

// detectionFigures are the figures of what a generator is told of detection.
func detectionFigures(d *Detection) []known {
	if d == nil {
		return nil
	}
	out := []known{{value: float64(d.Across), quantity: count}}
	for _, m := range []detection.Matrix{d.Named, d.Classified} {
		out = append(out, known{value: float64(m.Windows()), quantity: count}, known{value: float64(m.Agreed()), quantity: count})
		for _, s := range traffic.States() {
			out = append(out, known{value: float64(m.True(s)), quantity: count})
			for _, n := range m[s] {
				out = append(out, known{value: float64(n), quantity: count})
			}
		}
	}
	for _, s := range d.Suggestions {
		out = append(out, textFigures(s.Why)...)
		for _, v := range []float64{s.Nearest, s.Against} {
			out = append(out, known{value: v, quantity: change}, known{value: v, quantity: share}, known{value: v, quantity: rate}, known{value: v, quantity: latency})
		}
		out = append(out, textFigures(s.Now+" "+s.Better)...)
	}
	return out
}

// compactDetection is Detection as a generator reads it: the figures of a suggestion are in its sentence.
type compactDetection struct {
	Named       detection.Matrix    `json:"windows_true_state_then_named_state"`
	Across      int                 `json:"windows_across_two_states"`
	Suggestions []compactSuggestion `json:"threshold_suggestions,omitempty"`
}

type compactSuggestion struct {
	Path   string `json:"path"`
	Better string `json:"better"`
	Why    string `json:"why"`
}

func compactDetectionOf(d *Detection) *compactDetection {
	if d == nil {
		return nil
	}
	out := &compactDetection{Named: d.Named, Across: d.Across}
	for _, s := range d.Suggestions {
		out.Suggestions = append(out.Suggestions, compactSuggestion{bounded(s.Path, 40), bounded(s.Better, 20), bounded(s.Why, 300)})
	}
	return out
}
