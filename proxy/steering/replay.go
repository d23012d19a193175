package steering

import (
	"fmt"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// Report is what a rule set would have done with a recorded series of snapshots.
type Report struct {
	Windows  int `json:"windows"`
	Switches int `json:"switches"`
	// Adoptions are those switches that no gate holds: of the first window after a start or a reset.
	Adoptions int `json:"adoptions"`
	// SwitchesPerMinute counts those that passed the gates, in the rule set's own time: a window counts as long as the rule set
	// asks for, even where it was recorded at a time scale.
	SwitchesPerMinute float64                   `json:"switches_per_minute"`
	States            map[traffic.State]int     `json:"states"`     // windows classified as each state
	Held              map[traffic.State]int     `json:"held"`       // windows after which each state's rule was in force
	Algorithms        map[balance.Algorithm]int `json:"algorithms"` // windows that ended under each algorithm
	Unreached         []traffic.State           `json:"unreached"`  // states whose rule never came into force
	Decisions         []Decision                `json:"decisions"`  // the switches alone
	MostRPS           float64                   `json:"most_rps"`   // the highest that was recorded
	MostRate          float64                   `json:"most_rate"`  // likewise of the rps change rate
}

// String says how often it switched where the gates had a say.
func (r Report) String() string {
	return fmt.Sprintf("Switches: %d in %d windows, %.1f a minute.", r.Switches-r.Adoptions, r.Windows, r.SwitchesPerMinute)
}

// Replay feeds a recorded series, oldest first, to a new governor under rs. A snapshot with nothing to be compared with
// is the first after a start or a reset, and resets the governor as it did then. The windows are those that were
// recorded: where rs asks for longer ones they count as scaled down, and its latency slope spans what was recorded.
// What another algorithm would have done to latencies and errors is not in the record.
func Replay(rs rules.RuleSet, series []traffic.Snapshot) Report {
	r := Report{States: map[traffic.State]int{}, Held: map[traffic.State]int{}, Algorithms: map[balance.Algorithm]int{},
		Unreached: []traffic.State{}, Decisions: []Decision{}}
	g := New(rs, "replay")
	var own time.Duration
	for _, s := range series {
		if s.RPSChangeRate == nil && !s.FromZero {
			g.forget()
			g.algorithm, g.params = g.wanted()
		}
		if rs.Detection.Window > 0 && s.Window > 0 {
			g.scale = min(1, s.Window.Seconds()/rs.Detection.Window.Seconds())
		}
		own += max(s.Window, rs.Detection.Window)
		fresh := g.fresh
		d := g.Evaluate(s.At, s)
		r.add(fresh, d, g.state)
	}
	if own > 0 {
		r.SwitchesPerMinute = float64(r.Switches-r.Adoptions) / own.Minutes()
	}
	for _, state := range traffic.States() {
		if r.Held[state] == 0 {
			r.Unreached = append(r.Unreached, state)
		}
	}
	return r
}

// add counts one evaluation, after which the rule of held was in force. fresh: no gate was asked.
func (r *Report) add(fresh bool, d Decision, held traffic.State) {
	r.Windows++
	r.States[d.State]++
	r.Held[held]++
	r.Algorithms[d.Algorithm]++
	r.MostRPS = max(r.MostRPS, d.Snapshot.RPS)
	if rate := d.Snapshot.RPSChangeRate; rate != nil {
		r.MostRate = max(r.MostRate, *rate)
	}
	if !d.Switched {
		return
	}
	r.Decisions = append(r.Decisions, d)
	r.Switches++
	if fresh {
		r.Adoptions++
	}
}
