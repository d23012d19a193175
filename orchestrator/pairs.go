package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/ruleversions"
)

// verify makes interleaved pairs and asks the judge after fixed numbers of them, until it decides.
func (u *turn) verify(ctx context.Context, candidate ruleversions.Version) error {
	if err := u.step(ctx, Verifying, fmt.Sprintf("pairs of v%d and v%d; the judge looks after %s pairs", u.champion.Number, candidate.Number, looks(u.plan.Looks))); err != nil {
		return err
	}
	known, err := u.Notebook.Noise(ctx, u.c.Profile, u.c.Driver)
	if err != nil {
		return fmt.Errorf("reading the known noise: %w", err)
	}
	var pairs []verdict.Pair
	for look, upTo := range u.plan.Looks {
		more, err := u.pairs(ctx, len(pairs)/len(u.scenarios)+1, upTo, candidate.Number)
		if err != nil {
			return err
		}
		pairs = append(pairs, more...)
		v, err := verdict.Judge(pairs, u.c.Limits, known, u.plan.Looks)
		if err != nil {
			return fmt.Errorf("judging: %w", err)
		}
		u.c.Verdict = &v
		if v.Outcome != verdict.Undecided {
			return nil
		}
		if look+1 == len(u.plan.Looks) {
			break
		}
		u.report.expect(u.report.spent() + time.Duration(2*(u.plan.Looks[look+1]-upTo))*u.plan.Cost(u.scenarios, 1))
	}
	return errors.New("the judge did not decide at its last look")
}

// pairs makes pairs from..upTo of every scenario.
func (u *turn) pairs(ctx context.Context, from, upTo, candidate int) (all []verdict.Pair, err error) {
	for n := from; n <= upTo; n++ {
		for _, s := range u.scenarios {
			p, err := u.pair(ctx, s, n, candidate)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// pair runs champion and candidate one right after the other, in random order, under the same seed. A half that is no
// evidence spoils the pair: both are made once more, as before, since what is compared has to lie side by side in time.
func (u *turn) pair(ctx context.Context, s loadtest.Scenario, n, candidate int) (verdict.Pair, error) {
	name, why := s.Shape.Name, ""
	halves := []Run{
		{Scenario: name, Arm: ArmChampion, Pair: n, Version: u.champion.Number},
		{Scenario: name, Arm: ArmCandidate, Pair: n, Version: candidate},
	}
	order := rand.New(rand.NewPCG(u.seed(name, n), 1))
	order.Shuffle(2, func(i, j int) { halves[i], halves[j] = halves[j], halves[i] })
	for range 2 {
		made, spoilt, err := u.both(ctx, halves, s)
		if err != nil {
			return verdict.Pair{}, err
		}
		if spoilt == "" {
			return pairOf(made), nil
		}
		why = spoilt
		u.Log.Warn("half of a pair is no evidence", "cycle", u.c.ID, "scenario", name, "pair", n, "why", why)
	}
	return verdict.Pair{}, fmt.Errorf("scenario %s %w: pair %d, %s", name, errNoEvidence, n, why)
}

// both makes the halves of a pair. spoilt says which is no evidence, and why; the other is then set aside, or not made.
func (u *turn) both(ctx context.Context, halves []Run, s loadtest.Scenario) (made []measured, spoilt string, err error) {
	for _, h := range halves {
		if u.c.Candidate != 0 {
			if err := u.inForce(ctx, h.Version); err != nil {
				return nil, "", fmt.Errorf("switching to v%d: %w", h.Version, err)
			}
		}
		m, err := u.run(ctx, h, s, adaptive)
		if err != nil {
			return nil, "", err
		}
		if len(m.Result.Invalid) == 0 {
			made = append(made, m)
			continue
		}
		for _, other := range made {
			if err := u.Notebook.SetAside(ctx, other.ID, "The other half of its pair was no evidence: it is compared with nothing."); err != nil {
				return nil, "", err
			}
		}
		return nil, fmt.Sprintf("%s v%d: %s", h.Arm, h.Version, strings.Join(m.Result.Invalid, " ")), nil
	}
	return made, "", nil
}

// pairOf is what the judge is told of two halves.
func pairOf(made []measured) (p verdict.Pair) {
	for _, m := range made {
		p.Scenario, p.HoldOut = m.Scenario, m.HoldOut
		if m.Arm == ArmChampion {
			p.Champion = figures(m.Result)
		} else {
			p.Candidate = figures(m.Result)
		}
	}
	return p
}

func figures(r loadtest.Result) verdict.Measurement {
	return verdict.Measurement{Requests: r.Requests, RPS: r.RPS, P95MS: r.P95MS, ErrorRate: r.ErrorRate}
}

func looks(n []int) string {
	s := strings.Trim(fmt.Sprint(n), "[]")
	return strings.ReplaceAll(s, " ", ", ")
}
