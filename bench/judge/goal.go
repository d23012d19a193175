package main

import (
	"fmt"
	"math"

	"retune/orchestrator/loadtest"
)

// goal bounds how often cycles of one truth may end in one way.
type goal struct {
	truth   truth
	name    string // of the share
	share   func(counted) float64
	bound   float64
	atLeast bool
	only    loadtest.Profile // empty: every profile
}

func kept(c counted) float64       { return c.Kept }
func rolledBack(c counted) float64 { return c.RolledBack }

// goals are the promises that docs/judge.md makes.
var goals = []goal{
	{truths[1], "rolled back", rolledBack, 0.01, false, ""},
	{truths[1], "kept", kept, 0.80, true, loadtest.Standard},
	{truths[3], "rolled back", rolledBack, 0.05, false, ""},
	{truths[4], "kept", kept, 0.01, false, ""},
	{truths[5], "rolled back", rolledBack, 0.99, true, ""},
	{truths[7], "kept", kept, 0.01, false, ""},
}

// met reports whether a count meets the goal, forgiving what chance may do: so many standard errors of a share that is
// the bound itself.
func (g goal) met(c counted, cycles int, forgiven float64) bool {
	slack := forgiven * math.Sqrt(g.bound*(1-g.bound)/float64(cycles))
	if g.atLeast {
		return g.share(c) >= g.bound-slack
	}
	return g.share(c) <= g.bound+slack
}

func (g goal) String() string {
	if g.atLeast {
		return fmt.Sprintf("%s at least %.0f%%", g.name, 100*g.bound)
	}
	return fmt.Sprintf("%s at most %.0f%%", g.name, 100*g.bound)
}

// of reports whether the goal is that of a truth, however its candidates were made.
func (g goal) of(t truth) bool {
	return g.truth.Ratio == t.Ratio && g.truth.Points == t.Points && g.truth.All == t.All
}

// goalsOf are those that a truth has under a profile.
func goalsOf(t truth, p loadtest.Profile) (all []goal) {
	for _, g := range goals {
		if g.of(t) && (g.only == "" || g.only == p) {
			all = append(all, g)
		}
	}
	return all
}
