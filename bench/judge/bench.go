package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// trial is a machine and a profile's looks.
type trial struct {
	machine machine
	profile loadtest.Profile
	plan    orchestrator.Plan // of the profile
	known   bool              // the machine was calibrated before
}

func trialOf(m machine, p loadtest.Profile, known bool) trial {
	plan, err := orchestrator.PlanFor(p)
	if err != nil {
		panic(err) // the profiles are ours
	}
	return trial{m, p, plan, known}
}

// benchmark is how trials are made.
type benchmark struct {
	cycles int // of each truth
	seed   uint64
	judge  judgement
}

// outcome is what a trial showed.
type outcome struct {
	Machine    string           `json:"machine"`
	Looks      loadtest.Profile `json:"looks_of"`
	Calibrated bool             `json:"calibrated"`
	Pairs      int              `json:"pairs"`  // of each scenario, at the last look
	Noise      float64          `json:"noise"`  // SD of the log of a pair's p95 ratio, of the noisiest scenario
	Needed     int              `json:"needed"` // pairs by which verdict.Resolve says that equal arms are mostly kept
	Cycles     int              `json:"cycles"` // of each truth
	Counts     []counted        `json:"counts"`
}

// judgement is verdict.Judge, or another that is tried beside it.
type judgement func(pairs []verdict.Pair, limits verdict.Limits, known []verdict.Noise, looks []int) (verdict.Verdict, error)

// counted is what came of many cycles whose candidates differ by the same truth. Shares are of all cycles.
type counted struct {
	truth
	Kept         float64 `json:"kept"`
	RolledBack   float64 `json:"rolled_back"`
	Inconclusive float64 `json:"inconclusive"`
	Pairs        float64 `json:"pairs"` // of each scenario, on average
	// OneRunKept is how often a rule keeps the candidate that compares one run with one run.
	OneRunKept float64 `json:"one_run_kept"`
}

// trialsOn are the recorded machines, models fitted to them, and simulated ones, calibrated and not. Quick runs are
// tried under standard's looks too: a standard run lasts five times as long and scatters less, so that is the harder way.
func trialsOn(quick, standard recording) (all []trial) {
	add := func(m machine, profiles ...loadtest.Profile) {
		for _, p := range profiles {
			all = append(all, trialOf(m, p, true), trialOf(m, p, false))
		}
	}
	for _, m := range []machine{standard, fitted(standard)} {
		add(m, loadtest.Standard)
	}
	for _, m := range []machine{quick, fitted(quick)} {
		add(m, loadtest.Quick, loadtest.Standard)
	}
	for _, m := range simulated() {
		add(m, loadtest.Quick, loadtest.Standard)
	}
	return all
}

// run makes the trials, as many at once as there are cores.
func (b benchmark) run(ctx context.Context, trials []trial) ([]outcome, error) {
	all := make([]outcome, len(trials))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, t := range trials {
		g.Go(func() (err error) {
			all[i], err = b.try(ctx, t)
			return err
		})
	}
	return all, g.Wait()
}

// try counts a trial's cycles under every truth.
func (b benchmark) try(ctx context.Context, t trial) (outcome, error) {
	looks := t.plan.Looks
	o := outcome{Machine: t.machine.title(), Looks: t.profile, Calibrated: t.known, Pairs: looks[len(looks)-1], Cycles: b.cycles}
	o.Noise, o.Needed = b.noise(t.machine, looks)
	for _, truth := range t.truths() {
		c, err := b.count(ctx, t, truth)
		if err != nil {
			return o, fmt.Errorf("%s: %w", t.machine.title(), err)
		}
		o.Counts = append(o.Counts, c)
	}
	return o, nil
}

// truths are what candidates are tried with on the machine: where there are, really slower ones too.
func (t trial) truths() []truth {
	all := slices.Clone(truths)
	if rec, ok := t.machine.(recording); ok {
		for _, s := range rec.slowed {
			all = append(all, truth{Ratio: s.factor, Real: true, measured: s.pairs})
		}
	}
	return all
}

// noise is how much pairs of the noisiest scenario truly scatter, and how many the judge says that it needs.
func (b benchmark) noise(m machine, looks []int) (sd float64, needed int) {
	const many = 500
	known := noiseOf(m.rounds(rand.New(rand.NewPCG(b.seed, 1)), many))
	for _, n := range known {
		if n.Metric == verdict.P95 {
			sd = max(sd, n.SD)
		}
	}
	for _, r := range verdict.Resolve(known, verdict.DefaultLimits(), looks) {
		needed = max(needed, r.Needed)
	}
	return sd, needed
}

// count runs the cycles of one truth.
func (b benchmark) count(ctx context.Context, t trial, truth truth) (counted, error) {
	c := counted{truth: truth}
	r := rand.New(rand.NewPCG(b.seed, 0))
	for range b.cycles {
		v, keeps, err := b.cycle(r, t, truth)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return c, err
		}
		c.add(v, keeps, 1/float64(b.cycles))
	}
	return c, nil
}

// add adds a cycle, which is such a share of all.
func (c *counted) add(v verdict.Verdict, keptByOneRun bool, share float64) {
	switch v.Outcome {
	case verdict.Kept:
		c.Kept += share
	case verdict.RolledBack:
		c.RolledBack += share
	default:
		c.Inconclusive += share
	}
	c.Pairs += share * float64(v.Pairs)
	if keptByOneRun {
		c.OneRunKept += share
	}
}

// cycle is one turn to its verdict, as a tuner makes it: pairs are added until a look decides. keeps is what one run of
// each arm would have said.
func (b benchmark) cycle(r *rand.Rand, t trial, truth truth) (v verdict.Verdict, keeps bool, err error) {
	var known []verdict.Noise
	if t.known {
		known = noiseOf(t.machine.rounds(r, t.plan.CalibrationPairs))
	}
	looks := t.plan.Looks
	rounds := t.machine.rounds(r, looks[len(looks)-1])
	pairs := truth.apply(r, rounds)
	each := len(rounds[0])
	for _, n := range looks {
		v, err = b.judge(pairs[:n*each], verdict.DefaultLimits(), known, looks)
		if err != nil || v.Outcome != verdict.Undecided {
			break
		}
	}
	return v, keptByOneRun(pairs[:each], verdict.DefaultLimits()), err
}

// noiseOf is what a calibration of these rounds tells the judge.
func noiseOf(rounds [][]verdict.Pair) (known []verdict.Noise) {
	for i, p := range rounds[0] {
		s := verdict.Scatter{}
		for _, round := range rounds {
			s.AddEqual(round[i])
		}
		known = append(known, s.Noise(p.Scenario)...)
	}
	return known
}

// keptByOneRun is what most tools do: one run beside one run, and the limits.
func keptByOneRun(pairs []verdict.Pair, l verdict.Limits) bool {
	for _, p := range pairs {
		a, b := p.Champion, p.Candidate
		if b.P95MS > a.P95MS*(1+l.P95Increase) || b.RPS < a.RPS*(1-l.RPSDecrease) || b.ErrorRate > a.ErrorRate+l.ErrorIncrease {
			return false
		}
	}
	return true
}

// byOneRun is that rule as a judge: it sees the first pair alone.
func byOneRun(pairs []verdict.Pair, limits verdict.Limits, _ []verdict.Noise, looks []int) (verdict.Verdict, error) {
	v := verdict.Verdict{Outcome: verdict.RolledBack, Pairs: 1}
	if keptByOneRun(pairs[:len(pairs)/looks[0]], limits) {
		v.Outcome = verdict.Kept
	}
	return v, nil
}

// truths are what candidates are tried with.
var truths = []truth{
	{Ratio: 0.8, All: true}, {Ratio: 1, All: true}, {Ratio: 1.1, All: true}, {Ratio: 1.15, All: true},
	{Ratio: 1.3}, {Ratio: 2}, {Ratio: 1, Points: 1, All: true}, {Ratio: 1, Points: 3},
}
