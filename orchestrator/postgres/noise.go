package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// Noise is how much pairs scatter on this machine beside the difference of their arms, per scenario and metric.
func (s *Store) Noise(ctx context.Context, profile loadtest.Profile, driver loadtest.Driver) ([]verdict.Noise, error) {
	rows, err := s.pairedRuns(ctx, s.options.Machine, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return orchestrator.NoiseUnder(knownNoise(rows), profile, driver).Known, nil
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
	k = orchestrator.NoiseUnder(knownNoise(rows), c.Profile, c.Driver)
	k.Setup, err = s.newestSetup(ctx, rows, k)
	return k, err
}

// pairedRuns are a machine's newest halves of pairs before a run.
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

// noiseKey is what noise belongs to: figures of different profiles or drivers are never mixed.
type noiseKey struct {
	profile  loadtest.Profile
	driver   loadtest.Driver
	scenario string
}

// knownNoise pools, per key, what pairs are known to scatter beside the difference of their arms. rows are newest first.
func knownNoise(rows []queries.PairedRunsRow) (list []orchestrator.KnownNoise) {
	pools, updated := map[noiseKey]verdict.Scatter{}, map[noiseKey]time.Time{}
	for _, t := range trials(rows) {
		pool, ok := pools[t.noiseKey]
		if !ok {
			pool = verdict.Scatter{}
			pools[t.noiseKey], updated[t.noiseKey] = pool, t.newest
		}
		if t.kind == orchestrator.Calibrate {
			pool.AddEqual(t.pairs...)
		} else {
			pool.AddTrial(t.pairs...)
		}
	}
	for _, key := range sortedKeys(pools) {
		known := pools[key].Noise(key.scenario)
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

func sortedKeys(pools map[noiseKey]verdict.Scatter) []noiseKey {
	return slices.SortedFunc(maps.Keys(pools), func(a, b noiseKey) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.driver, b.driver), cmp.Compare(a.scenario, b.scenario))
	})
}

// trial is one cycle's complete pairs of one scenario, newest first.
type trial struct {
	noiseKey
	kind   orchestrator.Kind
	pairs  []verdict.Pair
	newest time.Time // when its last run was stored
}

// trials are in the order of their newest runs, so that sums come out the same to the last digit. Of a half that was
// made again the last try counts.
func trials(rows []queries.PairedRunsRow) (list []*trial) {
	type trialKey struct {
		noiseKey
		cycle int64
	}
	type half struct {
		trialKey
		pair int
		arm  orchestrator.Arm
	}
	byKey, halves := map[trialKey]*trial{}, map[half]verdict.Measurement{}
	for _, r := range rows {
		key := trialKey{noiseKey{r.Profile, r.Driver, r.Scenario}, r.CycleID}
		this, other := half{key, r.Pair, r.Arm}, half{key, r.Pair, otherArm(r.Arm)}
		if _, again := halves[this]; again {
			continue
		}
		halves[this] = verdict.Measurement{Requests: r.Requests, RPS: r.Rps, P95MS: r.P95Ms, ErrorRate: r.ErrorRate}
		if byKey[key] == nil {
			byKey[key] = &trial{noiseKey: key.noiseKey, kind: r.Kind, newest: r.CreatedAt}
			list = append(list, byKey[key])
		}
		if _, complete := halves[other]; complete {
			byKey[key].pairs = append(byKey[key].pairs, verdict.Pair{
				Scenario: r.Scenario, Champion: halves[half{key, r.Pair, orchestrator.ArmChampion}], Candidate: halves[half{key, r.Pair, orchestrator.ArmCandidate}],
			})
		}
	}
	return list
}

func otherArm(a orchestrator.Arm) orchestrator.Arm {
	if a == orchestrator.ArmChampion {
		return orchestrator.ArmCandidate
	}
	return orchestrator.ArmChampion
}
