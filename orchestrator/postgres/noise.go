package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres/queries"
	"retune/orchestrator/verdict"
)

// noiseRuns is how many of a machine's newest runs its noise is known from: what it was long ago matters no more.
const noiseRuns = 4000

// Noise is how much pairs of equal arms scatter on this machine, per scenario and metric.
func (s *Store) Noise(ctx context.Context, profile loadtest.Profile, driver loadtest.Driver) ([]verdict.Noise, error) {
	rows, err := s.pairedRuns(ctx, s.options.Machine, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return noiseUnder(knownNoise(rows), profile, driver).Known, nil
}

// AllNoise is all that is known of this machine's noise, by profile and driver.
func (s *Store) AllNoise(ctx context.Context) ([]orchestrator.KnownNoise, error) {
	rows, err := s.pairedRuns(ctx, s.options.Machine, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	list := knownNoise(rows)
	for i := range list {
		if list[i].Setup, err = s.newestSetup(ctx, rows, list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// NoiseThen is what was known of its machine's noise before a cycle's first pair was measured: what its verdict rests
// on. Nothing is known of a cycle without pairs.
func (s *Store) NoiseThen(ctx context.Context, cycle int64) (k orchestrator.KnownNoise, err error) {
	c, err := s.Cycle(ctx, cycle)
	if err != nil {
		return k, err
	}
	k = orchestrator.KnownNoise{Profile: c.Profile, Driver: c.Driver}
	first, err := s.q.FirstPairedRun(ctx, cycle)
	if err := found(err); err != nil {
		if errors.Is(err, orchestrator.ErrNotFound) {
			return k, nil
		}
		return k, fmt.Errorf("reading the first pair of cycle %d: %w", cycle, err)
	}
	rows, err := s.pairedRuns(ctx, first.Machine, first.ID)
	if err != nil {
		return k, err
	}
	k = noiseUnder(knownNoise(rows), c.Profile, c.Driver)
	k.Setup, err = s.newestSetup(ctx, rows, k)
	return k, err
}

// pairedRuns are a machine's newest runs of equal arms before a run.
func (s *Store) pairedRuns(ctx context.Context, machine string, before int64) ([]queries.PairedRunsRow, error) {
	rows, err := s.q.PairedRuns(ctx, queries.PairedRunsParams{Machine: machine, Before: before, Lim: noiseRuns})
	if err != nil {
		return nil, fmt.Errorf("reading the runs that tell the noise of %s: %w", machine, err)
	}
	return rows, nil
}

// newestSetup is the setup of the newest run that some known noise rests on; rows are newest first.
func (s *Store) newestSetup(ctx context.Context, rows []queries.PairedRunsRow, k orchestrator.KnownNoise) (orchestrator.Setup, error) {
	i := slices.IndexFunc(rows, func(r queries.PairedRunsRow) bool {
		return r.Profile == k.Profile && r.Driver == k.Driver && !r.CreatedAt.After(k.Updated)
	})
	if i < 0 {
		return orchestrator.Setup{}, nil
	}
	c, err := s.Cycle(ctx, rows[i].CycleID)
	return c.Setup, err
}

// noiseUnder is what is known under one profile and driver.
func noiseUnder(all []orchestrator.KnownNoise, p loadtest.Profile, d loadtest.Driver) orchestrator.KnownNoise {
	i := slices.IndexFunc(all, func(k orchestrator.KnownNoise) bool { return k.Profile == p && k.Driver == d })
	if i < 0 {
		return orchestrator.KnownNoise{Profile: p, Driver: d}
	}
	return all[i]
}

// noiseKey is what noise belongs to: figures of different profiles or drivers are never mixed.
type noiseKey struct {
	profile  loadtest.Profile
	driver   loadtest.Driver
	scenario string
}

// knownNoise pools, per key and metric, what pairs of equal arms are known to scatter. rows are newest first.
func knownNoise(rows []queries.PairedRunsRow) []orchestrator.KnownNoise {
	pools, updated := map[noiseKey]scatter{}, map[noiseKey]time.Time{}
	for key, runs := range equalArms(rows) {
		s := pools[key.noiseKey]
		s.add(runs)
		pools[key.noiseKey] = s
		for _, r := range runs {
			if r.CreatedAt.After(updated[key.noiseKey]) {
				updated[key.noiseKey] = r.CreatedAt
			}
		}
	}
	var list []orchestrator.KnownNoise
	for _, key := range sortedKeys(pools) {
		known := pools[key].noise(key.scenario)
		if len(known) == 0 {
			continue
		}
		last := len(list) - 1
		if last < 0 || list[last].Profile != key.profile || list[last].Driver != key.driver {
			list = append(list, orchestrator.KnownNoise{Profile: key.profile, Driver: key.driver})
			last++
		}
		list[last].Known = append(list[last].Known, known...)
		if updated[key].After(list[last].Updated) {
			list[last].Updated = updated[key]
		}
	}
	return list
}

func sortedKeys(pools map[noiseKey]scatter) []noiseKey {
	keys := make([]noiseKey, 0, len(pools))
	for k := range pools {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b noiseKey) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.driver, b.driver), cmp.Compare(a.scenario, b.scenario))
	})
	return keys
}

// groupKey is one set of runs of equal arms: a calibration's pair, or a cycle's champion runs (pair 0).
type groupKey struct {
	noiseKey
	cycle int64
	pair  int
}

// equalArms groups runs that differ by noise alone. A pair of a calibration is the newest two of its valid runs: a run
// that was made again replaces its first try. A champion's run that was made again counts once too.
func equalArms(rows []queries.PairedRunsRow) map[groupKey][]queries.PairedRunsRow {
	groups := map[groupKey][]queries.PairedRunsRow{}
	type half struct {
		groupKey
		pair int
	}
	seen := map[half]bool{}
	for _, r := range rows {
		key := groupKey{noiseKey: noiseKey{r.Profile, r.Driver, r.Scenario}, cycle: r.CycleID}
		if r.Kind == orchestrator.Calibrate {
			key.pair = r.Pair
			if len(groups[key]) == 2 {
				continue
			}
		} else if h := (half{key, r.Pair}); seen[h] {
			continue
		} else {
			seen[h] = true
		}
		groups[key] = append(groups[key], r)
	}
	return groups
}

// scatter adds up squares and degrees of freedom, per metric, of what pairs of equal arms differ by.
type scatter [3]struct {
	squares float64
	freedom int
}

// metrics are p95 and RPS on the log scale, where a difference is the log of a ratio, and the error rate as it is.
var metrics = [3]struct {
	name verdict.Metric
	of   func(queries.PairedRunsRow) float64
}{
	{verdict.P95, func(r queries.PairedRunsRow) float64 { return math.Log(r.P95Ms) }},
	{verdict.RPS, func(r queries.PairedRunsRow) float64 { return math.Log(r.Rps) }},
	{verdict.ErrorRate, func(r queries.PairedRunsRow) float64 { return r.ErrorRate }},
}

// add adds one group of n equal runs: n-1 degrees of freedom around their mean, and twice the variance of one run,
// which is that of the difference of two. For a pair it is the square of its difference.
func (s *scatter) add(runs []queries.PairedRunsRow) {
	if len(runs) < 2 {
		return
	}
	for i, m := range metrics {
		var mean, squares float64
		for _, r := range runs {
			mean += m.of(r) / float64(len(runs))
		}
		for _, r := range runs {
			squares += 2 * (m.of(r) - mean) * (m.of(r) - mean)
		}
		if math.IsNaN(squares) || math.IsInf(squares, 0) {
			continue // no requests, no logarithm
		}
		s[i].squares += squares
		s[i].freedom += len(runs) - 1
	}
}

// noise is the pooled standard deviation of a pair's difference, per metric. The groups' means have been taken off
// already; the judge takes one more degree of freedom off the pairs it is told, so it is told of one more.
func (s scatter) noise(scenario string) []verdict.Noise {
	var list []verdict.Noise
	for i, m := range metrics {
		if n := s[i].freedom; n > 0 {
			list = append(list, verdict.Noise{Scenario: scenario, Metric: m.name, SD: math.Sqrt(s[i].squares / float64(n)), Pairs: n + 1})
		}
	}
	return list
}
