package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/steering"
)

// choose takes the one proposal that goes on to the trial: the only one that is left, or the best in a screening. nil: none
// is worth a trial.
func (u *turn) choose(ctx context.Context) (*Proposal, error) {
	var left []*Proposal
	for i := range u.proposals {
		if u.proposals[i].Fate == Entered {
			left = append(left, &u.proposals[i])
		}
	}
	switch len(left) {
	case 0:
		return nil, nil
	case 1:
		left[0].settle(Chosen, "chosen without a screening: no other proposal was left")
		return left[0], nil
	}
	s, err := u.screening(ctx, left)
	if err != nil {
		return nil, fmt.Errorf("screening %d proposals: %w", len(left), err)
	}
	if chosen := s.decide(u.plan.Rounds); chosen != nil {
		return chosen, nil
	}
	return nil, fmt.Errorf("none of %d proposals could be measured: %s", len(left), left[0].Why)
}

// screening is the short runs of a tournament.
type screening struct {
	limits    verdict.Limits
	noise     []verdict.Noise // of runs as short as these
	champion  map[string][]verdict.Measurement
	proposals []*Proposal
	of        map[*Proposal]map[string][]verdict.Measurement
}

// screening runs the champion and the proposals that are left in the same scenarios, as the quick profile has them, under the
// same seeds and in random order. Whatever happens, the champion is in force again when it returns.
func (u *turn) screening(ctx context.Context, left []*Proposal) (s *screening, err error) {
	quick, scenarios, err := u.Site.quick(u.c.Request)
	if err != nil {
		return nil, err
	}
	s = &screening{limits: u.c.Limits, champion: map[string][]verdict.Measurement{}, proposals: left, of: map[*Proposal]map[string][]verdict.Measurement{}}
	for _, p := range left {
		s.of[p] = map[string][]verdict.Measurement{}
	}
	if s.noise, err = u.Notebook.Noise(ctx, loadtest.Quick, u.c.Driver); err != nil {
		return nil, fmt.Errorf("reading the known noise: %w", err)
	}
	detail := fmt.Sprintf("screening %d proposals beside v%d in %d scenarios", len(left), u.champion.Number, len(scenarios))
	if err := u.step(ctx, Generating, detail); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, u.restore(ctx, err)) }()
	for round := 1; round <= u.plan.Rounds; round++ {
		for _, sc := range scenarios {
			if err := u.heat(ctx, s, sc, round, quick.TimeScale); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// quick is the quick profile's plan, and a request's scenarios under it, but for what is held out.
func (site Site) quick(r Request) (Plan, []loadtest.Scenario, error) {
	plan, err := PlanFor(loadtest.Quick)
	if err != nil {
		return plan, nil, err
	}
	r.Profile = loadtest.Quick
	all, err := site.choose(Cycle{Request: r}, plan.Warm)
	return plan, withoutHeldOut(all), err
}

// tournament is how long the screening of a full field takes, with so many answers of a model; 1: there is none.
func (site Site) tournament(r Request, p Plan, answers int) time.Duration {
	quick, scenarios, err := site.quick(r)
	if err != nil || answers == 1 {
		return 0
	}
	const others = 2 // the local generator's proposal, and the champion
	return time.Duration(p.Rounds*(answers+others)) * quick.Cost(scenarios, 1)
}

// heat runs the champion and every proposal once in a scenario. A proposal that gives no evidence twice is out; a scenario in which
// the champion gives none tells nothing, and is left out for all.
func (u *turn) heat(ctx context.Context, s *screening, sc loadtest.Scenario, round int, scale float64) error {
	name := sc.Shape.Name
	if !slices.ContainsFunc(s.proposals, func(p *Proposal) bool { return p.Fate == Entered }) {
		return nil // nobody is left to be measured
	}
	runners := append([]*Proposal{nil}, s.proposals...) // nil: the champion
	order := rand.New(rand.NewPCG(u.seed(screeningOf(name), round), 1))
	order.Shuffle(len(runners), func(i, j int) { runners[i], runners[j] = runners[j], runners[i] })
	for _, p := range runners {
		if p != nil && p.Fate != Entered {
			continue
		}
		m, err := u.screened(ctx, p, sc, round, scale)
		switch {
		case errors.Is(err, errNoEvidence) && p == nil:
			u.Log.Warn("the champion could not be measured; the screening does without this scenario", "scenario", name, "error", err)
			s.champion[name] = nil
			return nil
		case errors.Is(err, errNoEvidence):
			p.settle(Beaten, "it could not be measured in the screening: %s", err)
		case err != nil:
			return err
		case p == nil:
			s.champion[name] = append(s.champion[name], m)
		default:
			s.of[p][name] = append(s.of[p][name], m)
		}
	}
	return nil
}

// screened makes one run of the screening under a proposal, nil for the champion.
func (u *turn) screened(ctx context.Context, p *Proposal, sc loadtest.Scenario, round int, scale float64) (verdict.Measurement, error) {
	r := Run{Scenario: sc.Shape.Name, Arm: ArmScreen, Pair: round, Version: u.champion.Number}
	if p != nil {
		r.Version, r.Proposal = 0, p.Number
	}
	if err := u.serve(ctx, p); err != nil {
		return verdict.Measurement{}, fmt.Errorf("switching to %s: %w", r.who(), err)
	}
	m, err := u.valid(ctx, r, sc, steering.Mode{Mode: steering.Adaptive, Reset: true, TimeScale: scale})
	return figures(m.Result), err
}

// serve puts a proposal in force in the proxies' memory, nil for the champion. The ledger hears of it first, as of a trial: it keeps
// everybody else's hands off the target, and whoever finds the cycle dead puts the champion back.
func (u *turn) serve(ctx context.Context, p *Proposal) error {
	m := Move{Kind: MoveScreen, Version: u.champion.Number, Cycle: u.c.ID, Actor: "orchestrator", Reason: "screening"}
	if p == nil {
		return u.move(ctx, m)
	}
	m.Proposal = p.Number
	now, err := u.Ledger.Move(ctx, m)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, restoreFor)
	defer stop()
	return persist(ctx, func(ctx context.Context) error {
		if err := u.Target.Apply(ctx, p.version(), now.Generation, true); err != nil {
			return err
		}
		return u.Ledger.Applied(ctx, now.Desired, now.Generation)
	})
}
