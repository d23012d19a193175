package main

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"retune/orchestrator/verdict"
)

// machine is where pairs of equal arms come from: simulated, or recorded.
type machine interface {
	title() string
	// rounds are n rounds that follow each other in time. A round is a pair of every scenario.
	rounds(r *rand.Rand, n int) [][]verdict.Pair
}

// truth is by how much a candidate truly differs from its champion, in one scenario or in all of them. A limit that is
// passed is hardest to see where one scenario of several passes it, one that is kept is easiest to miss in all.
type truth struct {
	Ratio  float64 `json:"p95_ratio"`
	Points float64 `json:"error_points"` // percentage points
	All    bool    `json:"all_scenarios"`
	// Real says that the candidate is no multiplied p95 but was measured on slower backends, in steady.
	Real bool `json:"really_slower,omitempty"`

	measured []verdict.Pair // those, if it was
}

// apply makes the candidates of pairs of equal arms so. Errors are drawn, each request failing by itself, and what fails
// isn't served.
func (t truth) apply(r *rand.Rand, rounds [][]verdict.Pair) (pairs []verdict.Pair) {
	one := r.IntN(len(rounds[0]))
	for _, round := range rounds {
		for i, p := range round {
			switch {
			case t.Real && p.Scenario == "steady":
				p = t.measured[r.IntN(len(t.measured))]
			case !t.Real && (t.All || i == one):
				p.Candidate = t.changed(r, p.Candidate)
			}
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (t truth) changed(r *rand.Rand, m verdict.Measurement) verdict.Measurement {
	m.P95MS *= t.Ratio
	if t.Points > 0 {
		n := float64(m.Requests)
		failed := distuv.Binomial{N: n, P: t.Points / 100, Src: r}.Rand() / n
		m.RPS *= 1 - failed
		m.ErrorRate += failed * (1 - m.ErrorRate)
	}
	return m
}

// scenario is the noise of one scenario's runs on a simulated machine.
type scenario struct {
	name     string
	p95      float64 // median, ms
	rps      float64
	requests int64
	sd       float64 // of the natural log of a run's p95, beside what the machine does to it
	rpsSD    float64 // of the natural log of its RPS
	errors   float64 // mean error rate
}

// model is a simulated machine. The log of a run's p95 is its scenario's median, the machine's speed at that time, and
// the run's own noise. The speed is a first-order autoregression over the runs, in the order in which they are made: so
// it is shared by a pair but for the little that it moves between the halves, and differs between pairs that are far
// apart.
type model struct {
	name      string
	scenarios []scenario
	drift     float64 // SD of the log of the machine's speed
	stays     float64 // correlation of the speed between a run and the next
	tails     float64 // degrees of freedom of Student's t for a run's noise, over 2; 0: it is normal
	burst     float64 // share of runs that something else hits
	hit       float64 // by which factor it raises their p95, and their errors
}

func (m model) title() string { return m.name }

// rounds plays the runs one after the other, the halves of a pair in random order.
func (m model) rounds(r *rand.Rand, n int) (rounds [][]verdict.Pair) {
	speed := m.drift * r.NormFloat64()
	run := func(s scenario) verdict.Measurement {
		speed = m.stays*speed + m.drift*math.Sqrt(1-m.stays*m.stays)*r.NormFloat64()
		return m.run(r, s, speed)
	}
	for range n {
		var round []verdict.Pair
		for _, s := range m.scenarios {
			p := verdict.Pair{Scenario: s.name, Champion: run(s), Candidate: run(s)}
			round = append(round, swapped(r, p))
		}
		rounds = append(rounds, round)
	}
	return rounds
}

// run is one run at a speed of the machine.
func (m model) run(r *rand.Rand, s scenario, speed float64) verdict.Measurement {
	hit := 1.0
	if r.Float64() < m.burst {
		hit = m.hit
	}
	n := float64(s.requests)
	failed := min(n, distuv.Poisson{Lambda: max(1e-9, n*s.errors*hit), Src: r}.Rand())
	return verdict.Measurement{
		Requests: s.requests, ErrorRate: failed / n,
		RPS:   s.rps * (1 - failed/n) * math.Exp(s.rpsSD*r.NormFloat64()),
		P95MS: s.p95 * hit * math.Exp(speed+s.sd*m.draw(r)),
	}
}

// draw is noise with a standard deviation of 1.
func (m model) draw(r *rand.Rand) float64 {
	if m.tails == 0 {
		return r.NormFloat64()
	}
	return distuv.StudentsT{Sigma: math.Sqrt((m.tails - 2) / m.tails), Nu: m.tails, Src: r}.Rand()
}

// swapped exchanges the halves of every other pair: equal arms are alike, whichever came first.
func swapped(r *rand.Rand, p verdict.Pair) verdict.Pair {
	if r.IntN(2) == 0 {
		p.Champion, p.Candidate = p.Candidate, p.Champion
	}
	return p
}

// judged are the scenarios of a cycle, in the order in which they are run.
var judged = []string{"steady", "burst", "gradual", "failure"}

// four scenarios as the quick profile has them, with the same noise in each.
func four(sd float64) (all []scenario) {
	for _, name := range judged {
		all = append(all, scenario{name: name, p95: 500, rps: 60, requests: 750, sd: sd, rpsSD: 0.002, errors: 0.0013})
	}
	return all
}

// simulated are machines of every kind of noise that the judge has to live with.
func simulated() []model {
	return []model{
		{name: "calm: 5% noise", scenarios: four(0.05), drift: 0.15, stays: 0.98},
		{name: "noisy: 8% noise", scenarios: four(0.08), drift: 0.15, stays: 0.98},
		{name: "drifting: 5% noise, a speed that moves by 30%", scenarios: four(0.05), drift: 0.30, stays: 0.97},
		{name: "bursts: 5% noise, 3% of runs 2 times as slow", scenarios: four(0.05), drift: 0.15, stays: 0.98, burst: 0.03, hit: 2},
		{name: "heavy tails: 6% noise, Student's t with 3 degrees", scenarios: four(0.06), drift: 0.15, stays: 0.98, tails: 3},
	}
}
