package orchestrator

import (
	"fmt"
	"slices"
	"strings"

	"retune/orchestrator/verdict"
)

// Rejudgement is what the judge says of a stored cycle's pairs, anew and without load. It changes nothing that is stored.
type Rejudgement struct {
	Cycle  int64  `json:"cycle_id"`
	Status Status `json:"status"` // how the cycle ended, whatever is said here
	// Stored is the verdict as it was given; absent: the cycle ended without one.
	Stored *verdict.Verdict `json:"stored,omitempty"`
	// Own is what the judge says today under the cycle's own limits.
	Own verdict.Verdict `json:"own"`
	// Confirmed says that Own is Stored again, to the figure.
	Confirmed bool `json:"confirmed"`
	// Verdict is under the limits asked for, which it holds, at the look at which the cycle would have ended. Undecided:
	// the cycle would have measured more pairs than there are.
	Verdict verdict.Verdict `json:"verdict"`
	Looks   []int           `json:"looks"` // the plan: after how many pairs the judge looks
	Pairs   int             `json:"pairs"` // that are stored of every scenario
	Noise   KnownNoise      `json:"noise"` // that it was judged with: what was known before the cycle's first pair
}

// Rejudge judges an ended cycle's pairs again under other limits: the same pairs in the same order, at the same looks,
// with what was known of the noise then. runs are the cycle's, in their order. ErrInvalid for a cycle that has nothing
// to judge, with the reason.
func Rejudge(c Cycle, runs []Run, then KnownNoise, limits verdict.Limits) (r Rejudgement, err error) {
	if err := limits.Check(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	plan, err := PlanFor(c.Profile)
	if err != nil {
		return r, err
	}
	rounds := rounds(c, runs)
	if why := unjudgeable(c, len(rounds), plan.Looks[0]); why != "" {
		return r, fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	r = Rejudgement{Cycle: c.ID, Status: c.Status, Stored: c.Verdict, Looks: plan.Looks, Pairs: len(rounds), Noise: then}
	if r.Own, err = judgeRounds(rounds, c.Limits, then.Known, plan.Looks); err != nil {
		return r, err
	}
	if r.Verdict, err = judgeRounds(rounds, limits, then.Known, plan.Looks); err != nil {
		return r, err
	}
	r.Confirmed = r.Stored != nil && r.Stored.Outcome == r.Own.Outcome && r.Stored.Reason == r.Own.Reason
	return r, nil
}

// unjudgeable says why a cycle with so many complete rounds can't be judged again; empty: it can.
func unjudgeable(c Cycle, rounds, firstLook int) string {
	switch {
	case c.Kind == Calibrate:
		return fmt.Sprintf("cycle %d measured the champion against itself: there is no candidate to judge", c.ID)
	case !c.Status.Ended():
		return fmt.Sprintf("cycle %d is still %s: judge it again when it has ended", c.ID, c.Status)
	case rounds == 0:
		return fmt.Sprintf("cycle %d has no pairs to judge: it ended before any was measured (%s: %s)", c.ID, strings.ReplaceAll(string(c.Status), "_", " "), c.Why)
	case rounds < firstLook:
		return fmt.Sprintf("cycle %d has %d complete pair of every scenario: the judge looks after %d at the earliest", c.ID, rounds, firstLook)
	}
	return ""
}

// rounds are a cycle's complete pairs, one of every scenario in each round, as they were judged: of a half that was made
// again the last try counts. A round that the cycle's end cut short is left out.
func rounds(c Cycle, runs []Run) (all [][]verdict.Pair) {
	type half struct {
		scenario string
		pair     int
		arm      Arm
	}
	halves := map[half]Run{}
	var scenarios []string
	for _, r := range runs {
		candidate := r.Arm == ArmCandidate && r.Version == c.Candidate
		if r.Pair == 0 || len(r.Result.Invalid) > 0 || r.Arm != ArmChampion && !candidate {
			continue
		}
		halves[half{r.Scenario, r.Pair, r.Arm}] = r
		if !slices.Contains(scenarios, r.Scenario) {
			scenarios = append(scenarios, r.Scenario)
		}
	}
	for n := 1; len(scenarios) > 0; n++ {
		var round []verdict.Pair
		for _, s := range scenarios {
			a, measuredA := halves[half{s, n, ArmChampion}]
			b, measuredB := halves[half{s, n, ArmCandidate}]
			if !measuredA || !measuredB {
				return all
			}
			round = append(round, pairOf([]measured{{Run: a}, {Run: b}}))
		}
		all = append(all, round)
	}
	return nil
}

// judgeRounds asks the judge at each planned look, as a cycle does, until it decides or the rounds end.
func judgeRounds(rounds [][]verdict.Pair, limits verdict.Limits, known []verdict.Noise, looks []int) (v verdict.Verdict, err error) {
	for _, n := range looks {
		if n > len(rounds) {
			break
		}
		if v, err = verdict.Judge(slices.Concat(rounds[:n]...), limits, known, looks); err != nil || v.Outcome != verdict.Undecided {
			return v, err
		}
	}
	return v, nil
}

// Ending says when the cycle would have ended under the limits asked for: "at look 1 of 3, after 2 pairs".
func (r Rejudgement) Ending() string {
	v := r.Verdict
	if v.Outcome != verdict.Undecided {
		return fmt.Sprintf("at look %d of %d, after %d pairs", v.Look, len(r.Looks), v.Pairs)
	}
	return fmt.Sprintf("at look %d of %d, after %d of the %d pairs that there are: the cycle would have gone on to %d",
		v.Look, len(r.Looks), v.Pairs, r.Pairs, r.Looks[v.Look])
}

// Origin says how the verdict under the cycle's own limits compares with the one that is stored.
func (r Rejudgement) Origin() string {
	switch {
	case r.Stored == nil:
		return fmt.Sprintf("the cycle ended without a verdict; under its own limits its pairs give: %s", r.Own.Reason)
	case r.Confirmed:
		return "under the cycle's own limits the stored verdict comes out again, to the figure"
	}
	return fmt.Sprintf("under the cycle's own limits the judge now says something else than is stored (the judge has changed since, or runs are missing): %s", r.Own.Reason)
}
