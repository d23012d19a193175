package verdict

import (
	"fmt"
	"slices"

	"retune/orchestrator/loadtest"
)

// alpha is the error that an interval may make over all the looks of a plan together, both ends counted.
const alpha = 0.05

// ShouldLook is the plan of looks of a profile, fixed before anything is measured: after how many pairs per
// scenario a verdict may be given. An unknown profile gets the standard plan.
func ShouldLook(p loadtest.Profile) []int {
	switch p {
	case loadtest.Quick:
		return []int{2, 3, 4}
	case loadtest.Nightly:
		return []int{5, 8, 12}
	}
	return []int{3, 5, 8}
}

// spent is how much of alpha the looks up to `pairs` of `most` may have used: alpha·(pairs/most)³, the power family
// with ρ = 3 of Kim and DeMets, "Design and analysis of group sequential tests based on the type I error spending
// rate function", Biometrika 74 (1987), which is close to the boundary of O'Brien and Fleming. It leaves most of alpha
// for the last look, yet lets a clear case end early: with ρ = 2 a standard cycle is shorter by a quarter of a pair, and
// an equal candidate of a quick one is kept a quarter less often (`make bench-judge`).
func spent(pairs, most int) float64 {
	share := float64(pairs) / float64(most)
	return alpha * share * share * share
}

// tails is how often an interval's end may be on the wrong side of the truth, at one look.
//
// All scenarios must acquit, so each may be taken at the full level (an intersection-union test: Berger,
// Technometrics 24, 1982), and the end towards harm errs in alpha/2. Any one scenario may condemn, so the end
// towards no harm shares alpha among the scenarios: a candidate exactly at the limit in all of them is rolled back
// on a metric in at most 5% of verdicts.
type tails struct{ acquit, condemn float64 }

// tailsAt is what each look may use. A look uses up what the plan adds to spent; because the parts sum to alpha, the
// union bound holds whatever the correlation between looks, and so for t-intervals with an estimated spread too.
// The price is intervals a little wider than exact group-sequential ones.
func tailsAt(looks []int, scenarios int) []tails {
	out := make([]tails, len(looks))
	before := 0.0
	for i, n := range looks {
		now := spent(n, looks[len(looks)-1])
		use := now - before
		out[i] = tails{acquit: use / 2, condemn: use * min(0.5, 1/float64(scenarios))}
		before = now
	}
	return out
}

// lookOf finds which look n pairs are, from 0.
func lookOf(n int, looks []int) (int, error) {
	for i, l := range looks {
		if l < 2 || i > 0 && l <= looks[i-1] {
			return 0, fmt.Errorf("the looks %v must rise, from 2 pairs on", looks)
		}
	}
	i := slices.Index(looks, n)
	if i < 0 {
		return 0, fmt.Errorf("%d pairs per scenario is none of the planned looks %v", n, looks)
	}
	return i, nil
}
