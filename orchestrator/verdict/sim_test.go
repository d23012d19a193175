package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"retune/orchestrator/loadtest"
)

// world is a machine and a candidate: each run's p95 scatters log-normally, and both halves of a pair drift together.
type world struct {
	profile loadtest.Profile
	noise   float64 // SD of the log of one run's p95
	known   bool    // noise measured beforehand, by 8 pairs per scenario
	slower  [4]float64
}

const drift = 0.15 // SD of the log of what both halves of a pair share

func same(x float64) [4]float64 { return [4]float64{x, x, x, x} }

// pair draws one pair of runs of a scenario.
func (w world) pair(r *rand.Rand, scenario int) Pair {
	shared := 200 * math.Exp(drift*r.NormFloat64())
	run := func(factor float64) Measurement {
		errs := 0
		for range 4 { // about 0.13% of errors, in few requests
			if r.Float64() < 0.25 {
				errs++
			}
		}
		return Measurement{
			Requests: 750, RPS: 50 * math.Exp(0.002*r.NormFloat64()), ErrorRate: float64(errs) / 750,
			P95MS: shared * factor * math.Exp(w.noise*r.NormFloat64()),
		}
	}
	return Pair{Scenario: fmt.Sprint("s", scenario), Champion: run(1), Candidate: run(w.slower[scenario])}
}

// cycle is one turn to its verdict: pairs are added until a look decides.
func (w world) cycle(t testing.TB, r *rand.Rand) Verdict {
	var known []Noise
	if w.known {
		known = scatterOf(w.equal().pairs(r, 8))
	}
	var pairs []Pair
	looks := ShouldLook(w.profile)
	for _, n := range looks {
		pairs = append(pairs, w.pairs(r, n-len(pairs)/4)...)
		v, err := Judge(pairs, DefaultLimits(), known, looks)
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome != Undecided {
			return v
		}
	}
	t.Fatal("the last look left it undecided")
	return Verdict{}
}

// scatterOf is what the pairs of a calibration tell of the noise, as a store keeps it.
func scatterOf(pairs []Pair) (known []Noise) {
	for _, g := range group(pairs) {
		s := Scatter{}
		s.AddEqual(g.pairs...)
		known = append(known, s.Noise(g.scenario)...)
	}
	return known
}

func (w world) equal() world {
	w.slower = same(1)
	return w
}

func (w world) pairs(r *rand.Rand, n int) []Pair {
	var out []Pair
	for range n {
		for s := range 4 {
			out = append(out, w.pair(r, s))
		}
	}
	return out
}

// shares runs many cycles and counts their outcomes.
func (w world) shares(t testing.TB, cycles int) (share map[Outcome]float64, pairs float64) {
	count := map[Outcome]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for range cycles {
		v := w.cycle(t, r)
		count[v.Outcome]++
		pairs += float64(v.Pairs) / float64(cycles)
	}
	share = map[Outcome]float64{}
	for o, n := range count {
		share[o] = float64(n) / float64(cycles)
	}
	return share, pairs
}

// Run with -v for the table.
func TestHowOftenTheJudgeErrs(t *testing.T) {
	worse13 := [4]float64{1, 1, 1.3, 1}
	worse20 := [4]float64{1, 2, 1, 1}
	at115 := [4]float64{1, 1, 1.15, 1}
	bounds := []struct {
		name    string
		slower  [4]float64
		outcome Outcome
		most    float64
		least   float64
		looks   loadtest.Profile // empty: both
	}{
		{"equal arms", same(1), RolledBack, 0.01, 0, ""},
		{"p95 1.3 in one scenario", worse13, Kept, 0.01, 0, ""},
		{"p95 2.0 in one scenario", worse20, RolledBack, 1, 0.99, loadtest.Standard},
		{"p95 0.6 in all", same(0.6), Kept, 1, 0.9, ""},
		{"p95 at the limit in one scenario", at115, RolledBack, 0.05, 0, ""},
		{"p95 at the limit in all", same(1.15), RolledBack, 0.05, 0, ""},
	}
	for _, b := range bounds {
		for _, profile := range []loadtest.Profile{loadtest.Quick, loadtest.Standard} {
			for _, noise := range []float64{0.05, 0.08} {
				for _, known := range []bool{false, true} {
					w := world{profile, noise, known, b.slower}
					share, pairs := w.shares(t, 400)
					t.Logf("%-32s %-8s noise %.0f%% known %-5v: kept %5.1f%%  rolled back %5.1f%%  inconclusive %5.1f%%  %.1f pairs",
						b.name, profile, noise*100, known, share[Kept]*100, share[RolledBack]*100, share[Inconclusive]*100, pairs)
					if b.looks != "" && b.looks != profile {
						continue
					}
					if got := share[b.outcome]; got > b.most || got < b.least {
						t.Errorf("%s, %s, noise %v, known %v: %s in %.2f%% of cycles, want %v to %v", b.name, profile, noise, known, b.outcome, got*100, b.least, b.most)
					}
				}
			}
		}
	}
}
