package steering

import (
	"fmt"
	"slices"
	"time"

	"retune/proxy/traffic"
)

// The gates, in the order in which they stand in a decision.
const (
	sameState = iota
	confidence
	cooldown
	switchRate
	sustained
)

// gates holds a classification against the five gates, and counts it towards the run of sustained windows. The run
// starts anew when the old state is back, when the window is doubtful, and while the cooldown blocks, so that
// nothing switches on stale evidence when the cooldown ends.
func (g *Governor) gates(now time.Time, c traffic.Classification) []Gate {
	if g.fresh {
		return g.open()
	}
	sw := g.rules.Switching
	left := g.cooling(now)
	g.switches = slices.DeleteFunc(g.switches, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	gates := []Gate{
		{"same_state", c.State != g.state, fmt.Sprintf("%s → %s", g.state, c.State)},
		{"confidence", c.Confidence >= sw.MinConfidence, fmt.Sprintf("%.2f, at least %.2f", c.Confidence, sw.MinConfidence)},
		{"cooldown", left == 0, "cooldown ok"},
		{"switch_rate", len(g.switches) < sw.MaxSwitchesPerMinute, g.switchCount()},
	}
	if c.State == g.state {
		gates[sameState].Detail = "still " + string(c.State)
	}
	if left > 0 {
		gates[cooldown].Detail = fmt.Sprintf("cooldown %s left", left.Round(100*time.Millisecond))
	}
	if gates[sameState].Passed && gates[confidence].Passed && gates[cooldown].Passed {
		g.run = run{c.State, g.run.after(c.State)}
	} else {
		g.run = run{}
	}
	need := g.needed(c.State)
	return append(gates, Gate{"sustained", g.run.windows >= need, fmt.Sprintf("%d/%d windows", g.run.windows, need)})
}

// open is the gates of a first window: there is nothing to hold on to.
func (g *Governor) open() []Gate {
	var gates []Gate
	for _, name := range []string{"same_state", "confidence", "cooldown", "switch_rate", "sustained"} {
		gates = append(gates, Gate{name, true, "first window"})
	}
	return gates
}

func allPassed(gates []Gate) bool {
	return !slices.ContainsFunc(gates, func(x Gate) bool { return !x.Passed })
}

// after is the length of the run with one more window of this state.
func (r run) after(s traffic.State) int {
	if r.state == s {
		return r.windows + 1
	}
	return 1
}

// needed is how many windows in a row a new state has to last.
func (g *Governor) needed(s traffic.State) int {
	if s == traffic.Spike {
		return g.rules.Switching.SpikeSustainedWindows
	}
	return g.rules.Switching.SustainedWindows
}

// cooling is how much of the cooldown is left.
func (g *Governor) cooling(now time.Time) time.Duration {
	if g.last.IsZero() {
		return 0
	}
	return max(g.scaled(g.rules.Switching.Cooldown)-now.Sub(g.last), 0)
}

// switchCount says how much of the minute's allowance is used.
func (g *Governor) switchCount() string {
	return fmt.Sprintf("%d/%d switches this minute", len(g.switches), g.rules.Switching.MaxSwitchesPerMinute)
}
