package orchestrator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"retune/orchestrator/verdict"
)

// certain is how many standard errors apart two scores have to be to be told apart.
const certain = 2

// decide ranks the proposals and settles which goes on: the best, or of those that can't be told from it the one that changes
// least. nil: none could be measured.
func (s *screening) decide(rounds int) *Proposal {
	ranked := s.rank(rounds)
	if len(ranked) == 0 {
		return nil
	}
	best := ranked[0].Screening
	noise := certain * best.Noise
	alike := slices.DeleteFunc(slices.Clone(ranked), func(p *Proposal) bool { return p.Screening.Score-best.Score > noise })
	chosen := slices.MinFunc(alike, func(a, b *Proposal) int { return cmp.Compare(len(a.Changes), len(b.Changes)) }) // the first of equals has the better score
	for _, p := range ranked {
		switch {
		case p == chosen:
		case slices.Contains(alike, p):
			p.settle(Beaten, "the screening can't tell it from %s (scores %.2f and %.2f, noise %.2f), which was chosen because it changes %s",
				chosen.name(), p.Screening.Score, chosen.Screening.Score, noise, fewer(chosen, p))
		default:
			p.settle(Beaten, "its score in the screening is %.2f and the best is %.2f, with a noise of %.2f", p.Screening.Score, best.Score, noise)
		}
	}
	switch {
	case len(ranked) == 1:
		chosen.settle(Chosen, "chosen: no other proposal could be measured")
	case len(alike) == 1:
		chosen.settle(Chosen, "chosen by the screening: its score is %.2f and the next %.2f, with a noise of %.2f", best.Score, ranked[1].Screening.Score, noise)
	default:
		chosen.settle(Chosen, "chosen of %d that the screening can't tell apart (noise %.2f), because none of them changes less over the champion", len(alike), noise)
	}
	return chosen
}

// fewer says how one proposal's changes compare with those of another that has as many or more.
func fewer(chosen, other *Proposal) string {
	if len(chosen.Changes) == len(other.Changes) {
		return fmt.Sprintf("as much (%d) and has the better score", len(chosen.Changes))
	}
	return fmt.Sprintf("less (%d against %d)", len(chosen.Changes), len(other.Changes))
}

// rank scores the proposals that were measured, the best first, and notes it with each.
func (s *screening) rank(rounds int) (ranked []*Proposal) {
	var scenarios []string
	for name, m := range s.champion {
		if len(m) == rounds {
			scenarios = append(scenarios, name)
		}
	}
	slices.Sort(scenarios)
	for _, p := range s.proposals {
		if p.Fate == Entered {
			p.Screening = s.score(p, scenarios, rounds)
			ranked = append(ranked, p)
		}
	}
	slices.SortStableFunc(ranked, func(a, b *Proposal) int { return cmp.Compare(a.Screening.Score, b.Screening.Score) })
	for i, p := range ranked {
		p.Screening.Place = i + 1
	}
	return ranked
}

// score is the mean harm over the scenarios. Without any that told something all scores are 0, and noise alone.
func (s *screening) score(p *Proposal, scenarios []string, rounds int) *Screening {
	r := &Screening{Scenarios: []Screened{}}
	var variance float64
	for _, name := range scenarios {
		c, q := mean(s.champion[name]), mean(s.of[p][name])
		one := Screened{Scenario: name, Champion: c, Proposal: q, Harm: harm(c, q, s.limits)}
		r.Scenarios = append(r.Scenarios, one)
		r.Score += one.Harm / float64(len(scenarios))
		variance += s.variance(name) / float64(rounds*len(scenarios)*len(scenarios))
	}
	r.Noise = math.Sqrt(variance)
	return r
}

// harm is how much worse a proposal did than the champion in one scenario, each metric in units of the judge's limit: one that is
// 15% higher in p95 and equal in all else has 1, one that is as much lower about -1. It is bounded, so that it can be written.
func harm(champion, proposal verdict.Measurement, l verdict.Limits) float64 {
	h := math.Log(proposal.P95MS/champion.P95MS)/math.Log1p(l.P95Increase) +
		math.Log(proposal.RPS/champion.RPS)/math.Log1p(-l.RPSDecrease) +
		(proposal.ErrorRate-champion.ErrorRate)/l.ErrorIncrease
	const most = 1000
	if math.IsNaN(h) {
		return most
	}
	return min(max(h, -most), most)
}

// variance is that of the harm between two runs of equal arms in a scenario.
func (s *screening) variance(scenario string) (v float64) {
	for _, m := range []struct {
		verdict.Metric
		limit, sd float64 // sd: how much two short runs of equal arms are taken to scatter on a machine that was never calibrated
	}{
		{verdict.P95, math.Log1p(s.limits.P95Increase), 0.15},
		{verdict.RPS, math.Log1p(-s.limits.RPSDecrease), 0.05},
		{verdict.ErrorRate, s.limits.ErrorIncrease, 0.01},
	} {
		for _, n := range s.noise {
			if n.Scenario == scenario && n.Metric == m.Metric {
				m.sd = n.SD
			}
		}
		v += m.sd * m.sd / (m.limit * m.limit)
	}
	return v
}

func mean(all []verdict.Measurement) (m verdict.Measurement) {
	n := float64(len(all))
	for _, x := range all {
		m.Requests += x.Requests
		m.RPS += x.RPS / n
		m.P95MS += x.P95MS / n
		m.ErrorRate += x.ErrorRate / n
	}
	return m
}
