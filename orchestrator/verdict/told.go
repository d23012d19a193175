package verdict

import (
	"cmp"
	"slices"
	"strings"
)

// Told is the reason as a generator may know it: no figure and no name of a scenario that is held out is in it.
func (v Verdict) Told() string {
	shown := slices.DeleteFunc(slices.Clone(v.Findings), func(f Finding) bool { return f.HoldOut })
	if len(shown) == len(v.Findings) {
		return v.Reason
	}
	decided := v.Outcome // of the findings that the outcome rests on
	if decided == Inconclusive {
		decided = Undecided
	}
	shown = slices.DeleteFunc(shown, func(f Finding) bool { return f.Outcome != decided })
	if len(shown) == 0 {
		return strings.ReplaceAll(string(v.Outcome), "_", " ") + ": by a scenario that is held out"
	}
	v.MorePairs = 0
	for _, f := range shown {
		v.MorePairs = max(v.MorePairs, f.MorePairs)
	}
	return v.reason(slices.MaxFunc(shown, func(a, b Finding) int { return cmp.Compare(a.past(), b.past()) }))
}
