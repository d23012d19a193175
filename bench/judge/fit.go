package main

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"retune/orchestrator/verdict"
)

// fitted is a model whose figures are those of a recording, by the method of moments: each scenario's medians, errors
// and noise within pairs; the machine's speed by how the rounds' means scatter and follow each other; the tails by the
// kurtosis of what pairs of equal arms differ by.
func fitted(r recording) model {
	m := model{name: "fitted to the recorded runs of " + string(r.profile) + " length"}
	var scaled []float64 // differences within pairs, each scenario's in its standard deviations
	for i, name := range judged {
		var p95, rps, errors, differences, rpsDifferences []float64
		for _, round := range r.inTurn {
			a, b := round[i].Champion, round[i].Candidate
			p95 = append(p95, math.Log(a.P95MS), math.Log(b.P95MS))
			rps = append(rps, a.RPS, b.RPS)
			errors = append(errors, a.ErrorRate, b.ErrorRate)
			differences = append(differences, math.Log(b.P95MS/a.P95MS))
			rpsDifferences = append(rpsDifferences, math.Log(b.RPS/a.RPS))
		}
		sd := rootMeanSquare(differences)
		for _, d := range differences {
			scaled = append(scaled, d/sd)
		}
		m.scenarios = append(m.scenarios, scenario{
			name: name, p95: math.Exp(stat.Mean(p95, nil)), rps: stat.Mean(rps, nil), requests: r.inTurn[0][i].Champion.Requests,
			sd: sd / math.Sqrt2, rpsSD: rootMeanSquare(rpsDifferences) / math.Sqrt2, errors: stat.Mean(errors, nil),
		})
	}
	m.drift, m.stays = driftOf(r.inTurn, m.scenarios)
	for i, s := range m.scenarios { // the speed moves within pairs too
		m.scenarios[i].sd = math.Sqrt(max(0, s.sd*s.sd-m.drift*m.drift*(1-m.stays)))
	}
	m.tails = tailsOf(scaled)
	return m
}

// driftOf is how much the machine's speed moves, and how much of it stays from run to run: the mean log p95 of each
// round over its scenarios, less what the runs' own noise explains.
func driftOf(rounds [][]verdict.Pair, scenarios []scenario) (drift, stays float64) {
	own := 0.0
	for _, s := range scenarios {
		own += s.sd * s.sd / 2 / float64(len(scenarios)*len(scenarios))
	}
	var speed []float64
	for _, round := range rounds {
		sum := 0.0
		for i, p := range round {
			sum += math.Log(p.Champion.P95MS*p.Candidate.P95MS)/2 - math.Log(scenarios[i].p95)
		}
		speed = append(speed, sum/float64(len(round)))
	}
	variance := max(0, stat.Variance(speed, nil)-own)
	if variance == 0 {
		return 0, 0
	}
	mean, together := stat.Mean(speed, nil), 0.0
	for i, s := range speed[1:] {
		together += (s - mean) * (speed[i] - mean) / float64(len(speed)-1)
	}
	lag := float64(2 * len(scenarios)) // runs from a round to the next
	return math.Sqrt(variance), math.Pow(min(0.999, max(0.01, together/variance)), 1/lag)
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
