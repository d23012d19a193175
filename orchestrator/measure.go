package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// measured is a run with what the proxies recorded during it.
type measured struct {
	Run
	decisions []steering.Decision
	snapshots []traffic.Snapshot
	shape     loadtest.Shape
	report    detection.Report // of how the traffic was named; no windows: its true states are not known
}

// Check says why a request's scenarios can't be run here; nil: they can. The driver is taken as asked for.
func (site Site) Check(r Request) error {
	_, err := site.choose(Cycle{Request: r}, 0)
	return err
}

// For is the scenarios that a cycle of a profile runs here when it names none, scaled to the profile.
func (site Site) For(p loadtest.Profile) []loadtest.Scenario {
	chosen, _ := site.choose(Cycle{Request: Request{Profile: p}}, 0) // an error is that there are none
	return chosen
}

// choose is the scenarios that a cycle names and that can be run here, or the profile's own that can, scaled to the
// profile; ErrInvalid says what can't be run, and why. A quick cycle has no time for what is held out.
func (site Site) choose(c Cycle, warm time.Duration) (chosen []loadtest.Scenario, err error) {
	found := map[string]bool{}
	for _, s := range site.Scenarios {
		name := s.Shape.Name
		if len(c.Scenarios) > 0 && !slices.Contains(c.Scenarios, name) {
			continue
		}
		if found[name] {
			return nil, fmt.Errorf("%w: two scenarios are called %s: rename one", ErrInvalid, name)
		}
		found[name] = true
		if s.Shape.HoldOut && c.Profile == loadtest.Quick && len(c.Scenarios) == 0 {
			continue
		}
		if why := site.unfit(s, c.Driver); why != "" {
			if len(c.Scenarios) > 0 {
				return nil, fmt.Errorf("%w: scenario %s %s", ErrInvalid, name, why)
			}
			continue
		}
		s.Shape, s.Profile, s.Target, s.Controls, s.Warm = s.Shape.Scaled(c.Profile), c.Profile, site.URL, site.Controls, warm
		chosen = append(chosen, s)
	}
	for _, n := range c.Scenarios {
		if !found[n] {
			return nil, fmt.Errorf("%w: no scenario %q; there are %s", ErrInvalid, n, site.names())
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no scenario can be run here", ErrInvalid)
	}
	return chosen, nil
}

func (site Site) names() string {
	var all []string
	for _, s := range site.Scenarios {
		all = append(all, s.Shape.Name)
	}
	return strings.Join(all, ", ")
}

// unfit says why a scenario can't be part of a cycle here; empty: it can.
func (site Site) unfit(s loadtest.Scenario, d loadtest.Driver) string {
	if s.Shape.Closed != nil {
		return "is a closed loop, which hides stalls: it is for `retune bench --reference` alone"
	}
	if d == loadtest.Builtin && !s.Runs(d) {
		return "is a k6 script: it needs the driver k6"
	}
	if missing := site.uncontrolled(s.Shape); missing != "" {
		return fmt.Sprintf("fails %s, which has no control endpoint: name it with --control %s=URL", missing, missing)
	}
	return ""
}

func (site Site) uncontrolled(shape loadtest.Shape) string {
	for _, e := range shape.Events {
		if site.Controls[e.Backend] == "" {
			return e.Backend
		}
	}
	return ""
}

// baseline runs every scenario with the champion, fresh in every cycle.
func (u *turn) baseline(ctx context.Context) (all []measured, err error) {
	if err := u.step(ctx, Baseline, fmt.Sprintf("measuring v%d in %s, driver %s", u.champion.Number, strings.Join(u.c.Scenarios, ", "), u.c.Driver)); err != nil {
		return nil, err
	}
	for _, s := range u.scenarios {
		m, err := u.valid(ctx, Run{Scenario: s.Shape.Name, Arm: ArmBaseline, Version: u.champion.Number}, s, adaptive)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// settle runs the candidate under background load until every window holds only its own requests. over means that it
// fails so badly that it goes back at once: the one gate that may act on a single run.
func (u *turn) settle(ctx context.Context, baseline []measured) (over bool, err error) {
	if err := u.step(ctx, Settling, fmt.Sprintf("v%d under background load for %s", u.c.Candidate, u.plan.Settle)); err != nil {
		return false, err
	}
	m, err := u.valid(ctx, Run{Scenario: "settle", Arm: ArmSettle, Version: u.c.Candidate}, background(u.steadiest(), u.plan.Settle), adaptive)
	if err != nil {
		return false, err
	}
	before, now := worstErrors(baseline), figures(m.Result)
	if before.Requests == 0 || !verdict.SettleBreach(before, now, u.c.Limits) { // no run without events: nothing to compare with
		return false, nil
	}
	u.c.Verdict = &verdict.Verdict{Outcome: verdict.RolledBack, Limits: u.c.Limits, Reason: fmt.Sprintf(
		"rolled back while settling: error rate %.1f%% → %.1f%%, limit +%.1f points", 100*before.ErrorRate, 100*now.ErrorRate, 100*u.c.Limits.ErrorIncrease)}
	return true, nil
}

// steadiest is the scenario that background load is taken from.
func (u *turn) steadiest() loadtest.Scenario {
	for _, s := range u.scenarios {
		if len(s.Shape.Phases) > 0 && len(s.Shape.Events) == 0 && !s.Shape.HoldOut {
			return s
		}
	}
	s := u.scenarios[0]
	s.Shape, _ = loadtest.Load("steady") // embedded, and tested to load
	return s
}

// worstErrors is the baseline's figures with its highest error rate among scenarios that fail nothing.
func worstErrors(baseline []measured) (worst verdict.Measurement) {
	for _, b := range shown(baseline) {
		if f := figures(b.Result); len(b.Result.Marks) == 0 && f.ErrorRate >= worst.ErrorRate {
			worst = f
		}
	}
	return worst
}

// shown leaves out what is held out: no generator learns of it.
func shown(runs []measured) []measured {
	return slices.DeleteFunc(slices.Clone(runs), func(m measured) bool { return m.HoldOut })
}

// valid makes a run, once more if it is no evidence, and fails with the reason if it still is none.
func (u *turn) valid(ctx context.Context, r Run, s loadtest.Scenario, m steering.Mode) (measured, error) {
	got, err := u.run(ctx, r, s, m)
	if err != nil || len(got.Result.Invalid) == 0 {
		return got, err
	}
	u.Log.Warn("a run is no evidence; making it once more", "cycle", u.c.ID, "scenario", r.Scenario, "why", got.Result.Invalid)
	got, err = u.run(ctx, r, s, m)
	if err == nil && len(got.Result.Invalid) > 0 {
		err = fmt.Errorf("scenario %s %w: %s", r.Scenario, errNoEvidence, strings.Join(got.Result.Invalid, " "))
	}
	return got, err
}

// errNoEvidence is a run that was invalid, and made once more, and invalid again.
var errNoEvidence = errors.New("gave no evidence twice")

var adaptive = steering.Mode{Mode: steering.Adaptive, Reset: true}

// run makes one run: reset, load, and what the proxies recorded meanwhile. Rules that changed under it void the cycle.
func (u *turn) run(ctx context.Context, r Run, s loadtest.Scenario, m steering.Mode) (measured, error) {
	if err := context.Cause(ctx); err != nil {
		return measured{}, err
	}
	r.CycleID, r.Seed, r.HoldOut = u.c.ID, u.seed(r.lot(), r.Pair), s.Shape.HoldOut
	s.Seed = r.Seed
	m.TimeScale = cmp.Or(m.TimeScale, u.plan.TimeScale)
	u.measuring.Store(true)
	if err := u.Target.SetMode(ctx, m); err != nil {
		return measured{}, err
	}
	before, err := u.Target.Serving(ctx)
	if err != nil {
		return measured{}, err
	}
	if before.Hash != u.hashOf(r) {
		return measured{}, fmt.Errorf("the cycle is void: the target runs v%d, not %s, which was to be measured", before.Version, r.who())
	}
	start := time.Now()
	u.report.arm(r)
	r.Result, err = u.load.Run(ctx, s, func(p loadtest.Progress) { u.report.load(ctx, p) })
	if err != nil {
		return measured{}, fmt.Errorf("scenario %s: %w", r.Scenario, err)
	}
	if err := context.Cause(ctx); err != nil {
		return measured{}, err
	}
	if tried := r.Proposal != 0 || r.Version == u.c.Candidate; tried && r.Result.FailedThroughout() {
		r.Result.Invalid = nil // nothing to compare with, of a champion; against a candidate it is evidence enough
	}
	u.report.done(s.Warm + s.Shape.Duration() + overhead)
	if err := u.unchanged(ctx, before); err != nil {
		return measured{}, err
	}
	got, err := u.record(ctx, r, start)
	if err != nil || r.Arm == ArmSettle || r.Arm == ArmScreen {
		return got, err
	}
	err = u.named(ctx, &got, s.Shape)
	return got, err
}

// hashOf is the hash of what a run measures: a proposal, the champion or the candidate.
func (u *turn) hashOf(r Run) rules.Hash {
	switch {
	case r.Proposal != 0:
		return u.proposals[r.Proposal-1].Hash
	case r.Version == u.champion.Number:
		return u.champion.Hash
	}
	return u.candidate.Hash
}

// ours reports whether the target runs what this cycle put there for a trial or a screening.
func (u *turn) ours(h rules.Hash) bool {
	return h == u.candidate.Hash || slices.ContainsFunc(u.proposals, func(p Proposal) bool { return p.Hash == h })
}

// unchanged fails when the target's rules were touched, or a proxy restarted, since before.
func (u *turn) unchanged(ctx context.Context, before rules.Active) error {
	now, err := u.Target.Serving(ctx)
	if err != nil {
		return fmt.Errorf("the cycle is void: the target can't be asked after a run: %w", err)
	}
	switch {
	case now.BootID != before.BootID:
		return errors.New("the cycle is void: a proxy restarted during a run")
	case now.Hash != before.Hash || !now.EffectiveAt.Equal(before.EffectiveAt):
		return fmt.Errorf("the cycle is void: the rules in force were changed during a run (v%d, then v%d)", before.Version, now.Version)
	}
	return nil
}

// record stores a run with what the proxies recorded since start.
func (u *turn) record(ctx context.Context, r Run, start time.Time) (m measured, err error) {
	if m.decisions, err = u.Journal.Decisions(ctx, start); err != nil {
		return m, err
	}
	if m.snapshots, err = u.Journal.Snapshots(ctx, start); err != nil {
		return m, err
	}
	if r.ID, err = u.Notebook.SaveRun(ctx, r); err != nil {
		return m, fmt.Errorf("storing a run of %s: %w", r.Scenario, err)
	}
	m.Run = r
	if err := u.Notebook.SaveJournal(ctx, u.c.ID, r.ID, m.decisions, m.snapshots); err != nil {
		return m, fmt.Errorf("storing decisions: %w", err)
	}
	return m, nil
}

// seed is the same for both halves of a pair, and another one for every pair, scenario and cycle.
func (u *turn) seed(scenario string, pair int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d", u.c.ID, scenario, pair)
	return h.Sum64()
}
