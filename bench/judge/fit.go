package main

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"retune/orchestrator/verdict"
)

// fitted is a model whose figures are those of a recording, by the method of moments: each scenario's medians, errors
// and noise within pairs; the machine's speed by how pairs scatter and follow each other; the tails by the kurtosis of
// what pairs of equal arms differ by.
func fitted(r recording) model {
	m := model{name: "fitted to the recorded runs of " + string(r.profile) + " length"}
	var scaled []float64 // differences within pairs, each scenario's in its standard deviations
	for _, pairs := range r.pairs {
		s, differences := scenarioOf(pairs)
		for _, d := range differences {
			scaled = append(scaled, d/(s.sd*math.Sqrt2))
		}
		m.scenarios = append(m.scenarios, s)
	}
	m.drift, m.stays = driftOf(r.pairs, m.scenarios)
	for _, s := range m.scenarios { // pairs differ by their seeds too: within them the speed moves by no more than was seen
		if m.drift > 0 {
			m.stays = max(m.stays, 1-s.sd*s.sd/(m.drift*m.drift))
		}
	}
	for i, s := range m.scenarios {
		m.scenarios[i].sd = math.Sqrt(max(0, s.sd*s.sd-m.drift*m.drift*(1-m.stays)))
	}
	m.tails = tailsOf(scaled)
	return m
}

// scenarioOf is a scenario's noise within pairs, and what the log p95s of each pair differ by.
func scenarioOf(pairs []verdict.Pair) (s scenario, differences []float64) {
	var p95, rps, errors, rpsDifferences []float64
	for _, p := range pairs {
		a, b := p.Champion, p.Candidate
		p95 = append(p95, math.Log(a.P95MS), math.Log(b.P95MS))
		rps = append(rps, a.RPS, b.RPS)
		errors = append(errors, a.ErrorRate, b.ErrorRate)
		differences = append(differences, math.Log(b.P95MS/a.P95MS))
		rpsDifferences = append(rpsDifferences, math.Log(b.RPS/a.RPS))
	}
	return scenario{
		name: pairs[0].Scenario, p95: math.Exp(stat.Mean(p95, nil)), rps: stat.Mean(rps, nil), requests: pairs[0].Champion.Requests,
		sd: rootMeanSquare(differences) / math.Sqrt2, rpsSD: rootMeanSquare(rpsDifferences) / math.Sqrt2, errors: stat.Mean(errors, nil),
	}, differences
}

// driftOf is how much the machine's speed moves, and how much of it stays from run to run, over all scenarios: the mean
// log p95 of each pair, less what the runs' own noise explains, and how it follows that of the pair before, two runs ago.
func driftOf(all [][]verdict.Pair, scenarios []scenario) (drift, stays float64) {
	var variance, together float64
	for i, pairs := range all {
		var speed []float64
		for _, p := range pairs {
			speed = append(speed, math.Log(p.Champion.P95MS*p.Candidate.P95MS)/2-math.Log(scenarios[i].p95))
		}
		n := float64(len(speed) * len(all))
		own := scenarios[i].sd * scenarios[i].sd / 2
		variance += max(0, stat.Variance(speed, nil)-own) / float64(len(all))
		for k, s := range speed[1:] {
			together += s * speed[k] / n
		}
	}
	if variance == 0 {
		return 0, 0
	}
	return math.Sqrt(variance), math.Sqrt(min(0.999, max(0.01, together/variance)))
}

// tailsOf is the degrees of freedom of Student's t with the kurtosis of x, from 3 on; 0 where x has no heavier tails than
// the normal distribution. The kurtosis of a t with n degrees is 3+6/(n-4).
func tailsOf(x []float64) float64 {
	fourth := 0.0
	for _, v := range x {
		fourth += v * v * v * v / float64(len(x))
	}
	if excess := fourth - 3; excess > 0.1 {
		return max(3, 4+6/excess)
	}
	return 0
}

func rootMeanSquare(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(x)))
}
