package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// Tuner runs one cycle at a time, from top to bottom. Between cycles it holds no state but whether the target was left
// in measuring mode.
type Tuner struct {
	Target    Target
	Journal   Journal
	Ledger    Ledger
	Notebook  Notebook
	Converger *Converger
	Site      Site
	// Driver gives the load runner for what a cycle asks for, and which driver that really is.
	Driver func(loadtest.Driver) (LoadRunner, loadtest.Driver, error)
	// Setup says what figures that are measured now depend on, for the record; nil: it is not recorded.
	Setup func(context.Context, loadtest.Driver) Setup
	// Generators are the advisors by name.
	Generators map[string]Advisor
	// Replay is the advisor that a cassette's text answers.
	Replay func(cassette string) (Advisor, error)
	Log    *slog.Logger

	measuring atomic.Bool // the target may be in measuring mode: fixed, or with a time scale
}

// Site is what load is sent to.
type Site struct {
	URL       string              // of the traffic listener
	Controls  map[string]string   // backend id → URL of its control endpoint; scenarios that fail a backend without one are left out
	Scenarios []loadtest.Scenario // what can be run: Shape as for the standard profile, Script where it is the user's own
}

// ErrCancelled is the cause of a context that ends because somebody cancelled the cycle.
var ErrCancelled = errors.New("cancelled")

// Run takes a claimed cycle to its end and returns it as it was saved last. Whatever happens, unless the outcome is
// Kept the champion is in force again when it returns. The error is for a ledger that could not be written: the
// cycle is then ended by Reclaim.
func (t *Tuner) Run(ctx context.Context, c Cycle) (Cycle, error) {
	u, err := t.begin(ctx, c)
	if err != nil {
		return u.end(ctx, err)
	}
	switch u.c.Kind {
	case Tune:
		err = u.tune(ctx)
	case Calibrate:
		err = u.calibrate(ctx)
	default:
		err = fmt.Errorf("%w: kind %q", ErrInvalid, u.c.Kind)
	}
	return u.end(ctx, err)
}

// turn is one cycle while it runs.
type turn struct {
	*Tuner
	c         Cycle
	plan      Plan
	scenarios []loadtest.Scenario // complete but for their seeds
	load      LoadRunner
	champion  ruleversions.Version
	newest    int                  // the newest version that there was at the start
	proposals []Proposal           // the cycle's tournament
	candidate ruleversions.Version // zero before there is one
	report    reporter
	replays   Advisor // of the cycle's cassette; nil: not opened yet
	saved     bool    // the cycle's end is in the ledger
}

// begin chooses plan, driver, scenarios and champion.
func (t *Tuner) begin(ctx context.Context, c Cycle) (*turn, error) {
	u := &turn{Tuner: t, c: c}
	u.report = reporter{notebook: t.Notebook, live: Live{CycleID: c.ID}}
	var err error
	if u.plan, err = PlanFor(c.Profile); err != nil {
		return u, err
	}
	if u.load, u.c.Driver, err = t.Driver(c.Driver); err != nil {
		return u, err
	}
	u.plan = u.plan.generatedBy(c.Generator, u.answers() > 1)
	if u.scenarios, err = t.Site.choose(u.c, u.plan.Warm); err != nil {
		return u, err
	}
	if t.Setup != nil {
		u.c.Setup = t.Setup(ctx, u.c.Driver)
	}
	u.c.Scenarios = nil
	for _, s := range u.scenarios {
		u.c.Scenarios = append(u.c.Scenarios, s.Shape.Name)
	}
	p, err := t.Ledger.Pointer(ctx)
	if err != nil {
		return u, fmt.Errorf("reading which version is in force: %w", err)
	}
	if p.Trial != 0 {
		return u, fmt.Errorf("%w: cycle %d's", ErrTrial, p.Trial)
	}
	if u.champion, err = t.Ledger.Version(ctx, p.Accepted); err != nil {
		return u, fmt.Errorf("reading the champion: %w", err)
	}
	u.c.Champion, u.newest = p.Accepted, p.Newest
	u.report.expect(u.expected())
	if err := t.Converger.Converge(ctx); err != nil { // what is measured as the champion has to be the champion
		return u, fmt.Errorf("bringing the target to v%d: %w", p.Accepted, err)
	}
	return u, nil
}

// expected is how long the cycle takes if the judge decides at its first look.
func (u *turn) expected() time.Duration {
	if u.c.Kind == Calibrate {
		return time.Duration(2*u.plan.CalibrationPairs) * u.plan.Cost(u.scenarios, 1)
	}
	return u.plan.Expected(u.scenarios, u.plan.Looks[0]) + u.Site.tournament(u.c.Request, u.plan, u.answers())
}

// tune is the feedback loop.
func (u *turn) tune(ctx context.Context) error {
	baseline, err := u.baseline(ctx)
	if err != nil {
		return err
	}
	candidate, err := u.propose(ctx, baseline)
	if err != nil || u.c.Status.Ended() {
		return err
	}
	return u.try(ctx, candidate, baseline)
}

// try puts the candidate on trial. Unless it is kept, the champion is in force again when try returns, even when ctx
// has ended meanwhile.
func (u *turn) try(ctx context.Context, candidate ruleversions.Version, baseline []measured) (err error) {
	defer func() {
		if u.c.Status != Kept {
			err = errors.Join(err, u.restore(ctx, err))
		}
	}()
	if err := u.step(ctx, Applying, fmt.Sprintf("applying v%d over v%d", candidate.Number, u.champion.Number)); err != nil {
		return err
	}
	trial := Move{Kind: MoveTrial, Version: candidate.Number, Cycle: u.c.ID, Actor: "orchestrator", Reason: "trial"}
	if err := u.move(ctx, trial); err != nil {
		return fmt.Errorf("applying v%d: %w", candidate.Number, err)
	}
	if over, err := u.settle(ctx, baseline); err != nil || over {
		return err
	}
	if err := u.verify(ctx, candidate); err != nil {
		return err
	}
	if u.c.Verdict.Outcome != verdict.Kept {
		return nil
	}
	return u.keep(ctx, candidate)
}

// keep makes the candidate the champion. The ledger moves the pointer and ends the cycle in one transaction, so that
// no crash leaves one without the other.
func (u *turn) keep(ctx context.Context, candidate ruleversions.Version) error {
	if err := u.inForce(ctx, candidate.Number); err != nil {
		return err
	}
	if err := u.confirm(ctx); err != nil {
		return err
	}
	if err := u.Normal(ctx); err != nil { // before the cycle has ended: nobody cleans up after one that has
		return fmt.Errorf("ending the measuring mode: %w", err)
	}
	kept := u.c
	kept.Status, kept.Why, kept.Finished = Kept, u.c.Verdict.Reason, time.Now()
	if err := u.saveKept(ctx, kept); err != nil {
		return fmt.Errorf("keeping v%d: %w", candidate.Number, err)
	}
	u.c, u.saved = kept, true
	if err := u.Converger.Converge(context.WithoutCancel(ctx)); err != nil {
		u.Log.Warn("the kept version is not in the proxies' files yet; trying again", "version", candidate.Number, "error", err)
	}
	return nil
}

// saveKept stores the end of a kept cycle, also after running has ended. A ledger that stumbles does not cost a proved
// version: it is tried for a while, unless the cycle is not ours any more.
func (u *turn) saveKept(running context.Context, kept Cycle) error {
	ctx, stop := lasting(running)
	defer stop()
	defer context.AfterFunc(running, func() {
		if errors.Is(context.Cause(running), ErrLost) {
			stop()
		}
	})()
	for within := patience; ; within *= 2 {
		err := attempt(ctx, within, func(ctx context.Context) error { return u.Ledger.Save(ctx, kept, kept.Why) })
		if err == nil {
			return nil
		}
		// It may have been stored before the connection broke, or the answer was late and ctx has ended.
		var p Pointer
		lookErr := attempt(context.WithoutCancel(ctx), patience, func(ctx context.Context) (err error) {
			p, err = u.Ledger.Pointer(ctx)
			return err
		})
		if lookErr == nil && p.Accepted == kept.Candidate {
			return nil
		}
		if errors.Is(err, ErrLost) || !pause(ctx, time.Second) {
			return err
		}
	}
}

// move changes the pointer and brings the target in line; one slow answer of a proxy does not end a trial.
func (u *turn) move(ctx context.Context, m Move) error {
	if _, err := u.Ledger.Move(ctx, m); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, restoreFor)
	defer stop()
	return u.converge(ctx)
}

// inForce makes a version the one that the target runs, within the trial that is on.
func (u *turn) inForce(ctx context.Context, version int) error {
	p, err := u.Ledger.Pointer(ctx)
	if err != nil {
		return err
	}
	if p.Desired == version {
		return u.Converger.Converge(ctx)
	}
	return u.move(ctx, Move{Kind: MoveSwap, Version: version, Cycle: u.c.ID, Actor: "orchestrator", Reason: "the other half of a pair"})
}

// step begins the next step of the timeline.
func (u *turn) step(ctx context.Context, s Status, detail string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	u.c.Status = s
	u.report.step(ctx, s, detail)
	return u.Ledger.Save(ctx, u.c, detail)
}

// end turns what happened into the cycle's last status and saves it. It outlives ctx.
func (u *turn) end(ctx context.Context, err error) (Cycle, error) {
	cause := context.Cause(ctx)
	ctx, stop := lasting(ctx)
	defer stop()
	if !u.saved && (errors.Is(err, ErrLost) || errors.Is(cause, ErrLost)) {
		u.measuring.Store(false) // whoever ends it ends the measuring mode too, and may be measuring by now
		return u.c, ErrLost
	}
	if err := u.Normal(ctx); err != nil {
		u.Log.Warn("the target is still in measuring mode; trying again", "error", err)
	}
	if u.saved {
		return u.c, nil
	}
	still := "the rules in force stay" // before it was read which they are
	if u.champion.Number != 0 {
		still = fmt.Sprintf("v%d is in force", u.champion.Number)
	}
	judged := err == nil && u.c.Verdict != nil // and the champion is back, whatever came then
	switch {
	case errors.Is(err, errNotRestored):
		u.finish(Failed, err.Error())
	case judged && !u.c.Status.Ended():
		u.finish(Status(u.c.Verdict.Outcome), u.c.Verdict.Reason)
	case errors.Is(cause, ErrCancelled):
		u.finish(Cancelled, "cancelled; "+still)
	case cause != nil:
		u.finish(Interrupted, "the orchestrator was stopped; "+still)
	case err != nil:
		u.finish(Failed, err.Error())
	}
	if u.c.Verdict != nil && Status(u.c.Verdict.Outcome) != u.c.Status {
		u.c.Verdict = nil // it did not become one
	}
	return u.c, u.Ledger.Save(ctx, u.c, u.c.Why)
}

// Normal ends the measuring mode if the target may be in it: time runs at its own speed again.
func (t *Tuner) Normal(ctx context.Context) error {
	if !t.measuring.Load() {
		return nil
	}
	if err := t.Target.SetMode(ctx, steering.Mode{Mode: steering.Adaptive, TimeScale: 1}); err != nil {
		return err
	}
	t.measuring.Store(false)
	return nil
}

func (u *turn) finish(s Status, why string) {
	u.c.Status, u.c.Why, u.c.Finished = s, why, time.Now()
}

// advise asks the cycle's generator. Where a model is asked for several answers, the local generator takes part with its own.
func (u *turn) advise(ctx context.Context, e advisor.Evidence) (p advisor.Proposals, err error) {
	if u.c.Generator == "file" {
		a, err := fromFile(u.c.Proposal)
		return advisor.Proposals{Advice: []advisor.Advice{a}}, err
	}
	g, err := u.generator()
	if err != nil {
		return p, err
	}
	if p, err = g.Proposals(ctx, e, u.answers()); err != nil || u.answers() == 1 {
		return p, err
	}
	own, none := u.Generators[local].Proposals(ctx, e, 1)
	if none != nil {
		p.Short = strings.TrimPrefix(p.Short+"; the local generator has no answer: "+none.Error(), "; ")
	}
	p.Advice = append(p.Advice, own.Advice...)
	return p, nil
}

// local is the generator that asks no model.
const local = "local"

// answers is how many rule sets the cycle's generator is asked for. Without a local proposal beside them there is no screening.
func (u *turn) answers() int {
	if u.Generators[local] == nil {
		return 1
	}
	return u.plan.answersOf(u.c.Generator)
}

// generator is what the cycle asks, of a cassette always the same one: it plays once.
func (u *turn) generator() (Advisor, error) {
	if u.c.Generator == "replay" {
		if u.replays != nil {
			return u.replays, nil
		}
		g, err := u.Replay(u.c.Replay)
		if err != nil {
			return nil, fmt.Errorf("%w: generator replay: %w", ErrInvalid, err)
		}
		u.replays = g
		return g, nil
	}
	g, ok := u.Generators[u.c.Generator]
	if !ok {
		return nil, fmt.Errorf("%w: generator %q is not available: use local, or set OPENAI_API_KEY for openai", ErrInvalid, u.c.Generator)
	}
	return g, nil
}

// fromFile is the advice of a rule file that somebody wrote.
func fromFile(yaml string) (advisor.Advice, error) {
	rs, err := rules.Parse("proposal", []byte(yaml))
	if err != nil {
		return advisor.Advice{}, fmt.Errorf("%w: the proposed rules: %w", ErrInvalid, err)
	}
	return advisor.Advice{Rules: rs, Origin: rules.OriginHuman, Author: "file", Summary: "A rule file, to be judged.", Reasons: ruleReasons(rs)}, nil
}

// ruleReasons are the reasons that stand in a rule file.
func ruleReasons(rs rules.RuleSet) (all []ruleversions.Reason) {
	for _, s := range traffic.States() {
		all = append(all, ruleversions.ReasonIn("rules."+string(s), rs.Rules[s].Reason))
	}
	return all
}
