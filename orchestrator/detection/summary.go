package detection

import (
	"cmp"
	"slices"

	"retune/proxy/traffic"
)

// Summary is what a cycle's reports come to.
type Summary struct {
	Champion    Counts       `json:"champion"`   // by the champion's thresholds, in the baseline and in every pair
	Candidate   Counts       `json:"candidate"`  // by the candidate's, in every pair
	Classified  Counts       `json:"classified"` // by the classifier, in the runs that it labelled
	Classifier  string       `json:"classifier"` // model name, or "local"; empty: nobody labelled
	Scenarios   []Scenario   `json:"scenarios"`
	Delays      []Delays     `json:"delays"`
	Suggestions []Suggestion `json:"suggestions"` // as the generator was told them: of no held-out scenario
}

// Counts are windows by their true state and by what they were named.
type Counts struct {
	Matrix  Matrix `json:"matrix"`
	Windows int    `json:"windows"` // that the matrix counts
	Agreed  int    `json:"agreed"`  // named as they truly were
	Across  int    `json:"windows_across_two_states"`
}

// Scenario is the champion's part of one scenario.
type Scenario struct {
	Scenario string `json:"scenario"`
	HoldOut  bool   `json:"hold_out,omitempty"`
	Counts
}

// Delays is how long the proxy took to name one true state of a scenario's timeline, over the champion's runs.
type Delays struct {
	Scenario string        `json:"scenario"`
	State    traffic.State `json:"state"`
	FromS    float64       `json:"from_s"`
	ToS      float64       `json:"to_s"`
	Runs     int           `json:"runs"`
	Never    int           `json:"never"`          // runs in which no window named it
	Median   *float64      `json:"median_windows"` // of the runs that named it, the lower of two; nil: none did
}

// Sum sums reports up: of the champion's runs, in their order, and of the candidate's. Suggestions are left empty.
func Sum(champion, candidate []Report) Summary {
	s := Summary{
		Champion: counts(champion, Named), Candidate: counts(candidate, Named),
		Delays: delays(champion), Scenarios: []Scenario{}, Suggestions: []Suggestion{},
	}
	labelled := slices.DeleteFunc(slices.Clone(champion), func(r Report) bool { return r.Classifier == "" })
	s.Classified = counts(labelled, Classified)
	if len(labelled) > 0 {
		s.Classifier = labelled[0].Classifier
	}
	for len(champion) > 0 {
		first := champion[0]
		other := func(r Report) bool { return r.Scenario != first.Scenario }
		of := slices.DeleteFunc(slices.Clone(champion), other)
		champion = slices.DeleteFunc(slices.Clone(champion), func(r Report) bool { return !other(r) })
		s.Scenarios = append(s.Scenarios, Scenario{first.Scenario, first.HoldOut, counts(of, Named)})
	}
	return s
}

func counts(reports []Report, by func(...Report) Matrix) Counts {
	m := by(reports...)
	return Counts{m, m.Windows(), m.Agreed(), Across(reports...)}
}

// delays joins the runs' delays by scenario and span.
func delays(reports []Report) []Delays {
	type key struct {
		scenario string
		state    traffic.State
		from, to float64
	}
	took, joined := map[key][]float64{}, map[key]Delays{}
	for _, r := range reports {
		for _, d := range r.Delays {
			k := key{r.Scenario, d.State, d.FromS, d.ToS}
			all := joined[k]
			all.Runs++
			if d.Windows == nil {
				all.Never++
			} else {
				took[k] = append(took[k], *d.Windows)
			}
			joined[k] = all
		}
	}
	out := []Delays{}
	for k, d := range joined {
		d.Scenario, d.State, d.FromS, d.ToS = k.scenario, k.state, k.from, k.to
		if sorted := slices.Sorted(slices.Values(took[k])); len(sorted) > 0 {
			d.Median = &sorted[(len(sorted)-1)/2]
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Delays) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.FromS, b.FromS), cmp.Compare(a.ToS, b.ToS), cmp.Compare(a.State, b.State))
	})
	return out
}
