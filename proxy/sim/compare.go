package sim

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"retune/proxy/balance"
	"retune/proxy/rules"
)

// Arm is what is compared: an algorithm, or rules that switch algorithms.
type Arm struct {
	Name      string
	Algorithm balance.Algorithm // Oracle: the limit
	Rules     *rules.RuleSet    // nil: Algorithm throughout
}

// Fixed are arms of one algorithm each.
func Fixed(algorithms []balance.Algorithm) []Arm {
	arms := make([]Arm, len(algorithms))
	for i, a := range algorithms {
		arms[i] = Arm{Name: string(a), Algorithm: a}
	}
	return arms
}

// Row is one arm in one scenario, once for each seed.
type Row struct {
	Scenario Scenario
	Arm      Arm
	Results  []Result
}

// Compare runs every arm, and the limit after them, in every scenario with every seed, on all cores. The rows come
// in that order. An error is ctx's or an unknown algorithm.
func Compare(ctx context.Context, scenarios []Scenario, arms []Arm, seeds []uint64) ([]Row, error) {
	arms = append(slices.Clone(arms), Fixed([]balance.Algorithm{Oracle})...)
	var rows []Row
	for _, s := range scenarios {
		for _, a := range arms {
			rows = append(rows, Row{s, a, make([]Result, len(seeds))})
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range rows {
		for i, seed := range seeds {
			g.Go(func() (err error) {
				if err = ctx.Err(); err == nil {
					r.Results[i], err = r.once(seed)
				}
				return err
			})
		}
	}
	return rows, g.Wait()
}

func (r Row) once(seed uint64) (Result, error) {
	s := r.Scenario.Setup
	s.Seed, s.Algorithm, s.Rules = seed, r.Arm.Algorithm, r.Arm.Rules
	if r.Arm.Algorithm == Oracle {
		return Limit(s)
	}
	return Run(s)
}

// Median is the middle one of a figure over the seeds; of an even number the lower of the two.
func (r Row) Median(figure func(Result) float64) float64 {
	all := make([]float64, len(r.Results))
	for i, x := range r.Results {
		all[i] = figure(x)
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
