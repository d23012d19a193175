package steering

import (
	"maps"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// Governor holds the algorithm or switches it. Whoever owns it feeds it one snapshot per window and, after every
// call that returns a Decision, puts Algorithm and Params in force and Window into effect. Where the times it is given
// have a monotonic reading, as time.Now's have, a wall clock that is set moves no cooldown. It is not safe for concurrent use.
type Governor struct {
	rules  rules.RuleSet
	bootID string
	seq    uint64

	fixed balance.Algorithm // in fixed mode; "" in adaptive mode
	scale float64           // of window and cooldown, (0, 1]

	state     traffic.State // whose rule is in force
	algorithm balance.Algorithm
	params    rules.Params

	fresh    bool             // no window since the start or a reset
	seen     traffic.Snapshot // the newest
	run      run
	spike    spike
	last     time.Time   // the last change of algorithm, whatever caused it; zero: none, no cooldown
	switches []time.Time // the window-made switches of the last minute
}

// run is how many windows in a row have shown the same new state.
type run struct {
	state   traffic.State
	windows int
}

// New makes a governor in adaptive mode. Before the first window the traffic counts as LOW_TRAFFIC. bootID stands in
// every decision.
func New(rs rules.RuleSet, bootID string) *Governor {
	g := &Governor{rules: own(rs), bootID: bootID, scale: 1}
	g.forget()
	g.algorithm, g.params = g.wanted()
	return g
}

// Evaluate takes the window that has just ended. A new state is adopted when all five gates pass, and the algorithm
// that its rule names is in force from then on; the first window after a start or a reset is adopted without them.
// The decision's snapshot is s with its state, algorithm and rules version filled in: the one to keep in a journal.
func (g *Governor) Evaluate(now time.Time, s traffic.Snapshot) Decision {
	c := g.classify(s)
	s.State, s.Algorithm, s.RulesVersion = c.State, string(g.algorithm), g.rules.Version
	d := g.decision(now, CauseWindow)
	d.State, d.Confidence, d.Snapshot, g.seen = c.State, c.Confidence, s, s

	first := g.fresh
	d.Gates = g.gates(now, c)
	if first || allPassed(d.Gates) {
		g.state, g.fresh, g.run = c.State, false, run{}
		g.enforce(now, &d)
	}
	if d.Switched {
		g.switches = append(g.switches, now)
		d.Gates[switchRate].Detail = g.switchCount()
	}
	d.Reason = g.explain(d, c.Reason, first)
	return d
}

// Reload puts new rules in force. The current state is mapped anew at once, ungated: a rule change is a decision
// already taken. What the old thresholds had seen so far is no evidence for the new ones.
func (g *Governor) Reload(now time.Time, rs rules.RuleSet) Decision {
	old := g.rules.Version
	g.rules, g.run = own(rs), run{}
	d := g.decision(now, CauseReload)
	g.enforce(now, &d)
	d.Reason = g.explainReload(d, old)
	return d
}

// own is a copy that nobody else can change.
func own(rs rules.RuleSet) rules.RuleSet {
	rs.Rules = maps.Clone(rs.Rules)
	return rs
}

// decision is one without an outcome yet: nothing changes. It shows the newest snapshot.
func (g *Governor) decision(now time.Time, cause Cause) Decision {
	g.seq++
	return Decision{
		Seq: g.seq, BootID: g.bootID, At: now.UTC(), Cause: cause, RulesVersion: g.rules.Version,
		State: g.state, PreviousState: g.state, Confidence: 1,
		Algorithm: g.algorithm, PreviousAlgorithm: g.algorithm, Gates: []Gate{},
		Snapshot: g.seen,
	}
}

// enforce puts what the current state calls for in force. A change of algorithm starts the cooldown.
func (g *Governor) enforce(now time.Time, d *Decision) {
	g.algorithm, g.params = g.wanted()
	d.Algorithm = g.algorithm
	if d.Switched = d.Algorithm != d.PreviousAlgorithm; d.Switched {
		g.last = now
	}
}

// wanted is what the mode, or the rule of the current state, calls for.
func (g *Governor) wanted() (balance.Algorithm, rules.Params) {
	if g.fixed != "" {
		return g.fixed, rules.Params{}
	}
	r := g.rules.Rules[g.state]
	return r.Algorithm, r.Params
}

// Algorithm is the algorithm in force.
func (g *Governor) Algorithm() balance.Algorithm { return g.algorithm }

// Params are the settings of the algorithm in force. They may change without a switch, when two rules name the same
// algorithm.
func (g *Governor) Params() rules.Params { return g.params }

// State is the traffic state whose rule is in force.
func (g *Governor) State() traffic.State { return g.state }

// Rules is the rule set in force.
func (g *Governor) Rules() rules.RuleSet { return g.rules }

// Window is the length of a window: the rule set's, shortened by the time scale. It may change with Reload and
// SetMode.
func (g *Governor) Window() time.Duration { return g.scaled(g.rules.Detection.Window) }

func (g *Governor) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * g.scale) }
