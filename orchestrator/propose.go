package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/switchlog"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// propose has a candidate proposed and stores it. A proposal that needs no trial ends the cycle.
func (u *turn) propose(ctx context.Context, baseline []measured) (candidate ruleversions.Version, err error) {
	if err := u.step(ctx, Generating, "generator "+u.c.Generator); err != nil {
		return candidate, err
	}
	e, err := u.evidence(ctx, baseline)
	if err != nil {
		return candidate, err
	}
	a, err := u.advise(ctx, e)
	if err != nil {
		return candidate, errors.Join(fmt.Errorf("generating rules: %w", err), u.Notebook.SaveCalls(context.WithoutCancel(ctx), u.c.ID, 0, a.Calls))
	}
	why, err := u.needless(ctx, a, baseline)
	if err == nil && why == "" {
		candidate, err = u.append(ctx, a)
	}
	if why != "" {
		u.finish(NoChange, why)
	}
	return candidate, errors.Join(err, u.Notebook.SaveCalls(context.WithoutCancel(ctx), u.c.ID, candidate.Number, a.Calls))
}

// append stores the advice as the next version.
func (u *turn) append(ctx context.Context, a advisor.Advice) (ruleversions.Version, error) {
	v, err := u.Ledger.Append(ctx, ruleversions.Draft{Parent: u.champion.Number, Origin: a.Origin, Author: a.Author,
		Rules: a.Rules, Summary: a.Summary, Reasons: a.Reasons, CycleID: u.c.ID, Prompt: a.PromptSHA})
	if err != nil {
		return v, fmt.Errorf("storing the proposed rules: %w", err)
	}
	u.c.Candidate, u.candidate = v.Number, v
	return v, nil
}

// needless says why a proposal is not worth a trial; empty: it is.
func (u *turn) needless(ctx context.Context, a advisor.Advice, baseline []measured) (string, error) {
	if u.c.Force {
		return "", nil
	}
	if rules.Same(a.Rules, u.champion.Rules) {
		return fmt.Sprintf("no change: the proposal does what v%d does. %s", u.champion.Number, a.Summary), nil
	}
	tried, err := u.Notebook.Attempts(ctx, 200)
	if err != nil {
		return "", fmt.Errorf("reading what was tried: %w", err)
	}
	for _, t := range tried {
		if t.Outcome != string(RolledBack) {
			continue
		}
		v, err := u.Ledger.Version(ctx, t.Version)
		if err != nil {
			return "", err
		}
		if rules.Same(a.Rules, v.Rules) {
			return fmt.Sprintf("no change: the proposal does what v%d does, which was rolled back: %s", t.Version, t.Why), nil
		}
	}
	return u.flaps(a.Rules, baseline), nil
}

// flapping is the share of windows with a switch above which rules are refused without a trial.
const flapping = 0.5

// flaps replays the recorded snapshots under the proposal, in milliseconds and without load.
func (u *turn) flaps(rs rules.RuleSet, baseline []measured) string {
	var switches, windows int
	for _, b := range shown(baseline) {
		r := steering.Replay(rs, b.snapshots)
		switches, windows = switches+r.Switches, windows+len(b.snapshots)
	}
	if windows == 0 || float64(switches)/float64(windows) <= flapping {
		return ""
	}
	return fmt.Sprintf("refused without a trial: replayed over the baseline's %d windows the proposal switches %d times; more than every second window is flapping", windows, switches)
}

// evidence gathers what the generator is told, and stores it with the cycle.
func (u *turn) evidence(ctx context.Context, baseline []measured) (e advisor.Evidence, err error) {
	e = advisor.Evidence{Cycle: u.c.ID, Champion: u.champion.Rules, Profile: string(u.c.Profile)}
	for _, b := range shown(baseline) {
		m := summary(b.Run)
		m.States = shares(b.snapshots)
		e.Scenarios = append(e.Scenarios, m)
		e.Series = append(e.Series, advisor.TurningPoints(b.Scenario, b.Result.Started, b.snapshots)...)
		e.Switches = append(e.Switches, switchlog.Analyse(b.Result, b.decisions, b.snapshots)...)
	}
	if e.Detection, err = u.detected(ctx, baseline); err != nil {
		return e, err
	}
	if e.Tried, err = u.Notebook.Attempts(ctx, 10); err != nil {
		return e, fmt.Errorf("reading what was tried: %w", err)
	}
	if u.screens() {
		if e.Algorithms, err = u.screen(ctx); err != nil {
			return e, err
		}
	}
	u.c.Evidence, err = json.Marshal(e)
	if err != nil {
		return e, fmt.Errorf("writing the evidence: %w", err)
	}
	return e, u.Ledger.Save(ctx, u.c, "")
}

// screens reports whether fixed algorithms are measured for the generator: the local one reasons from nothing else.
func (u *turn) screens() bool { return u.c.Generator == "local" }

// screenWarm is enough unmeasured load for a fixed algorithm, which waits for no window.
const screenWarm = 3 * time.Second

// screen measures fixed algorithms in every scenario, each for a part of a run's length.
func (u *turn) screen(ctx context.Context) (all []advisor.Measured, err error) {
	for _, s := range u.scenarios {
		if s.Shape.HoldOut {
			continue
		}
		s.Shape, s.Warm = shorten(s.Shape, u.plan.ScreenShare), min(s.Warm, screenWarm)
		for _, a := range u.plan.Screen {
			m := steering.Mode{Mode: steering.Fixed, Algorithm: a, Reset: true}
			got, err := u.valid(ctx, Run{Scenario: s.Shape.Name, Arm: ArmScreen, Version: u.champion.Number, Algorithm: a}, s, m)
			if errors.Is(err, errNoEvidence) { // too bad to measure is too bad to propose
				u.Log.Warn("an algorithm could not be measured; the generator does without it", "algorithm", a, "error", err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", a, err)
			}
			all = append(all, summary(got.Run))
		}
	}
	return all, nil
}

func summary(r Run) advisor.Measured {
	return advisor.Measured{Scenario: r.Scenario, Algorithm: r.Algorithm, RPS: r.Result.RPS, AvgMS: r.Result.AvgMS,
		P95MS: r.Result.P95MS, P99MS: r.Result.P99MS, ErrorRate: r.Result.ErrorRate}
}

// shares is how much of the windows each traffic state had.
func shares(snapshots []traffic.Snapshot) map[traffic.State]float64 {
	if len(snapshots) == 0 {
		return nil
	}
	of := map[traffic.State]float64{}
	for _, s := range snapshots {
		of[s.State] += 1 / float64(len(snapshots))
	}
	return of
}

// calibrate runs the champion against itself: what pairs of equal arms scatter is this machine's noise.
func (u *turn) calibrate(ctx context.Context) error {
	n := u.plan.CalibrationPairs
	if err := u.step(ctx, Verifying, fmt.Sprintf("%d pairs of v%d and itself", n, u.champion.Number)); err != nil {
		return err
	}
	var without []string // scenarios that gave no evidence: the others' noise is worth knowing all the same
	all := u.scenarios
	for _, s := range all {
		u.scenarios = []loadtest.Scenario{s}
		_, err := u.pairs(ctx, 1, n, u.champion.Number)
		if errors.Is(err, errNoEvidence) {
			without = append(without, s.Shape.Name)
			continue
		}
		if err != nil {
			return err
		}
	}
	if len(without) == len(all) {
		return fmt.Errorf("no scenario gave evidence: is the machine busy with something else?")
	}
	why := fmt.Sprintf("%d pairs of equal arms in each of %d scenarios, driver %s", n, len(all)-len(without), u.c.Driver)
	if len(without) > 0 {
		why += "; no evidence in " + strings.Join(without, ", ")
	}
	u.finish(Finished, why)
	return nil
}
