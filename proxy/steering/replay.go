package steering

import (
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

// Replay feeds a recorded series, oldest first, to a new governor under rs.
func Replay(rs rules.RuleSet, series []traffic.Snapshot) Report { return Report{} }
