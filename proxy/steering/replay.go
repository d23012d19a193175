package steering

import (
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// Report is what a rule set would have done with a recorded series of snapshots.
type Report struct {
	Windows           int                       `json:"windows"`
	Switches          int                       `json:"switches"`
	SwitchesPerMinute float64                   `json:"switches_per_minute"`
	States            map[traffic.State]int     `json:"states"`     // windows classified as each state
	Algorithms        map[balance.Algorithm]int `json:"algorithms"` // windows that ended under each algorithm
	Unreached         []traffic.State           `json:"unreached"`  // states whose rule never came into force
	Decisions         []Decision                `json:"decisions"`  // the switches alone
}

// Replay feeds a recorded series, oldest first, to a new governor under rs. A snapshot with nothing to be compared with
// is the first after a start or a reset, and resets the governor as it did then. The windows are those that were
// recorded: where rs asks for longer ones they count as scaled down, and its latency slope spans what was recorded.
// What another algorithm would have done to latencies and errors is not in the record.
func Replay(rs rules.RuleSet, series []traffic.Snapshot) Report {
	r := Report{States: map[traffic.State]int{}, Algorithms: map[balance.Algorithm]int{}, Unreached: []traffic.State{}, Decisions: []Decision{}}
	g := New(rs, "replay")
	held := map[traffic.State]bool{}
	var span time.Duration
	for _, s := range series {
		if s.RPSChangeRate == nil && !s.FromZero {
			g.forget()
			g.algorithm, g.params = g.wanted()
		}
		if rs.Detection.Window > 0 && s.Window > 0 {
			g.scale = min(1, s.Window.Seconds()/rs.Detection.Window.Seconds())
		}
		span += s.Window
		d := g.Evaluate(s.At, s)
		r.States[d.State]++
		r.Algorithms[d.Algorithm]++
		held[g.state] = true
		if d.Switched {
			r.Decisions = append(r.Decisions, d)
		}
	}
	r.Windows, r.Switches = len(series), len(r.Decisions)
	if span > 0 {
		r.SwitchesPerMinute = float64(r.Switches) / span.Minutes()
	}
	for _, state := range traffic.States() {
		if !held[state] {
			r.Unreached = append(r.Unreached, state)
		}
	}
	return r
}
