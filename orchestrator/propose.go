package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// propose has candidates proposed and stores them, and the one that is chosen as a version. Proposals that need no trial
// end the cycle.
func (u *turn) propose(ctx context.Context, baseline []measured) (candidate ruleversions.Version, err error) {
	if err := u.step(ctx, Generating, "generator "+u.c.Generator); err != nil {
		return candidate, err
	}
	e, err := u.evidence(ctx, baseline)
	if err != nil {
		return candidate, err
	}
	x := u.examiner(baseline)
	if !u.c.Force {
		e.Refuse = x.faults
	}
	answers, err := u.advise(ctx, e)
	if err != nil {
		return candidate, errors.Join(fmt.Errorf("generating rules: %w", err), u.saveCalls(ctx, nil, answers.Calls()))
	}
	chosen, err := u.tournament(ctx, answers.Advice, x)
	if err == nil && chosen != nil {
		candidate, err = u.append(ctx, chosen, answers.Short)
	}
	if err == nil && chosen == nil {
		u.finish(NoChange, whyNone(u.proposals))
	}
	return candidate, errors.Join(err, u.saveProposals(ctx), u.saveCalls(ctx, chosen, answers.Rest))
}

// tournament enters what was proposed and chooses what goes on to the trial; nil: nothing.
func (u *turn) tournament(ctx context.Context, advice []advisor.Advice, x examiner) (*Proposal, error) {
	for _, a := range advice {
		if err := u.enter(ctx, a, x); err != nil {
			return nil, err
		}
	}
	if err := u.saveProposals(ctx); err != nil { // before one is in force
		return nil, err
	}
	return u.choose(ctx)
}

// enter makes advice a participant, or refuses it with the reason.
func (u *turn) enter(ctx context.Context, a advisor.Advice, x examiner) error {
	p := u.proposal(a)
	seen, err := x.examine(ctx, a.Rules)
	if err != nil {
		return err
	}
	p.Remarks, p.Replay = seen.remarks, seen.replay
	if rules.Same(a.Rules, u.champion.Rules) && a.Summary != "" {
		seen.why += ". " + a.Summary
	}
	if seen.why != "" && !u.c.Force {
		p.settle(Refused, "%s", seen.why)
	}
	for _, q := range u.proposals {
		if p.Fate == Entered && rules.Same(p.Rules, q.Rules) {
			p.settle(Refused, "it does what %s does", q.name())
		}
	}
	u.proposals = append(u.proposals, p)
	return nil
}

// examiner looks at proposals with what this cycle and all before it know.
func (u *turn) examiner(baseline []measured) examiner {
	x := examiner{champion: u.champion.Number, rules: u.champion.Rules, judged: u.Notebook.Judged}
	for _, b := range shown(baseline) {
		x.series = append(x.series, b.snapshots...) // a run begins with a reset, and a reset shows in its first snapshot
	}
	return x
}

// append stores the chosen proposal as the next version, and in the timeline which it is of how many. short is why there were
// fewer than were asked for.
func (u *turn) append(ctx context.Context, p *Proposal, short string) (ruleversions.Version, error) {
	v, err := u.Ledger.Append(ctx, p.draft(u.c.ID))
	if err != nil {
		return v, fmt.Errorf("storing the proposed rules: %w", err)
	}
	u.c.Candidate, u.candidate, p.Version = v.Number, v, v.Number
	detail := fmt.Sprintf("%s of %d goes on as v%d", p.name(), len(u.proposals), v.Number)
	if short != "" {
		detail += "; " + short
	}
	return v, u.Ledger.Save(ctx, u.c, detail)
}

// saveProposals stores how the tournament stands; it outlives ctx.
func (u *turn) saveProposals(ctx context.Context) error {
	ctx, stop := lasting(ctx)
	defer stop()
	if err := u.Notebook.SaveProposals(ctx, u.c.ID, u.proposals); err != nil {
		return fmt.Errorf("storing the proposals: %w", err)
	}
	return nil
}

// saveCalls stores every exchange that was made, those that led to the chosen proposal with its version; it outlives ctx.
func (u *turn) saveCalls(ctx context.Context, chosen *Proposal, rest []advisor.Call) error {
	ctx, stop := lasting(ctx)
	defer stop()
	for i := range u.proposals {
		if p := &u.proposals[i]; p != chosen {
			rest = append(rest, p.calls...)
		} else if err := u.Notebook.SaveCalls(ctx, u.c.ID, p.Version, p.calls); err != nil {
			return err
		}
	}
	return u.Notebook.SaveCalls(ctx, u.c.ID, 0, rest)
}

// evidence gathers what the generator is told, and stores it with the cycle.
func (u *turn) evidence(ctx context.Context, baseline []measured) (e advisor.Evidence, err error) {
	e = advisor.Evidence{Cycle: u.c.ID, Champion: u.champion.Rules, Profile: string(u.c.Profile)}
	var runs []loadtest.Result
	var decisions []steering.Decision
	for _, b := range shown(baseline) {
		m := summary(b.Run)
		m.States = shares(b.snapshots)
		e.Scenarios = append(e.Scenarios, m)
		e.Series = append(e.Series, advisor.TurningPoints(b.Scenario, b.Result.Started, b.snapshots)...)
		runs, decisions = append(runs, b.Result), append(decisions, b.decisions...)
	}
	e.Switches = slices.Concat(switchlog.Analyse(runs, decisions)...)
	if e.Detection, err = u.detected(ctx, baseline); err != nil {
		return e, err
	}
	if e.Tried, err = u.Notebook.Attempts(ctx, 10); err != nil {
		return e, fmt.Errorf("reading what was tried: %w", err)
	}
	if e.Algorithms, err = u.screen(ctx); err != nil {
		return e, err
	}
	u.c.Evidence, err = json.Marshal(e)
	if err != nil {
		return e, fmt.Errorf("writing the evidence: %w", err)
	}
	return e, u.Ledger.Save(ctx, u.c, "")
}

// screenWarm is enough unmeasured load for a fixed algorithm, which waits for no window.
const screenWarm = 3 * time.Second

// screen measures the plan's fixed algorithms in every scenario, each for a part of a run's length: the local generator reasons
// from nothing else.
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
