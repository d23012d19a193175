//go:build linux

package main

import "fmt"

// outcome is all that one scenario showed.
type outcome struct {
	scenario
	samples
	memory map[string]held
}

// goal is a bound on one of the proxy's figures.
type goal struct {
	says    string // the figure and its bound
	format  string // of the measured figure
	limit   float64
	atLeast bool // at most, otherwise
	of      func(outcome) float64
}

// verdict is a goal beside what was measured. It goes by the median: whether the rounds agree is in the ranges, and
// whether the machine was fit to measure on in the warnings.
type verdict struct {
	Goal     string  `json:"goal"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	text     string
}

func (v verdict) String() string {
	word := "MISSED"
	if v.Met {
		word = "met"
	}
	return fmt.Sprintf("%s: %s, %s", v.Goal, v.text, word)
}

// judge compares the proxy's figures with the scenario's goals. An error spoils them all, so it is a goal of its own.
func (o outcome) judge() (all []verdict) {
	goals := o.goals
	if o.kind != idleMemory {
		goals = append(goals[:len(goals):len(goals)], noErrors)
	}
	for _, g := range goals {
		x := g.of(o)
		met := x <= g.limit
		if g.atLeast {
			met = x >= g.limit
		}
		all = append(all, verdict{g.says, x, met, fmt.Sprintf(g.format, x)})
	}
	return all
}

var noErrors = goal{says: "errors = 0", format: "%.0f", of: func(o outcome) float64 { return float64(o.errors(retune)) }}

// cpuAtMost bounds CPU per request as a ratio to peers'.
func cpuAtMost(limit float64, peers ...string) (goals []goal) {
	for _, peer := range peers {
		goals = append(goals, goal{
			says: fmt.Sprintf("CPU ≤ %.2f × %s", limit, peer), format: "%.2f", limit: limit,
			of: func(o outcome) float64 { return o.ratio(retune, peer, cpu).Median },
		})
	}
	return goals
}

// rpsAtLeast bounds throughput as a ratio to peers'.
func rpsAtLeast(limit float64, peers ...string) (goals []goal) {
	for _, peer := range peers {
		goals = append(goals, goal{
			says: fmt.Sprintf("RPS ≥ %.2f × %s", limit, peer), format: "%.2f", limit: limit, atLeast: true,
			of: func(o outcome) float64 { return o.ratio(retune, peer, rps).Median },
		})
	}
	return goals
}

// addedAtMost bounds how many microseconds more than a peer the proxy adds to a latency.
func addedAtMost(name string, f figure, more float64, peer string) []goal {
	return []goal{{
		says: fmt.Sprintf("added %s ≤ %s's + %.0f µs", name, peer, more), format: "%+.0f µs", limit: more,
		of: func(o outcome) float64 { return o.added(retune, f).Median - o.added(peer, f).Median },
	}}
}

// bytesAtMost bounds the memory of an idle connection.
func bytesAtMost(limit float64) goal {
	return goal{
		says: fmt.Sprintf("bytes per idle connection ≤ %.0f", limit), format: "%.0f", limit: limit,
		of: func(o outcome) float64 { return max(o.memory[retune].EachFewer, o.memory[retune].EachAll) },
	}
}

// heldAtLeast bounds how many idle connections are held, from below.
func heldAtLeast(n float64) goal {
	return goal{
		says: fmt.Sprintf("idle connections held ≥ %.0f", n), format: "%.0f", limit: n, atLeast: true,
		of: func(o outcome) float64 { return float64(o.memory[retune].Held) },
	}
}
