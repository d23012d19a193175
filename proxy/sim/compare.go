package sim

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"retune/proxy/balance"
)

// Row is one algorithm in one scenario, once for each seed.
type Row struct {
	Scenario  Scenario
	Algorithm balance.Algorithm // or Oracle: the limit
	Results   []Result
}

// Compare runs every algorithm, and the limit after them, in every scenario with every seed, on all cores. The rows
// come in that order. An error is ctx's or an unknown algorithm.
func Compare(ctx context.Context, scenarios []Scenario, algorithms []balance.Algorithm, seeds []uint64) ([]Row, error) {
	var rows []Row
	for _, s := range scenarios {
		for _, a := range append(slices.Clone(algorithms), Oracle) {
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
	s.Seed, s.Algorithm = seed, r.Algorithm
	if r.Algorithm == Oracle {
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
