package steering

import (
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// Governor holds the algorithm or switches it. It is not safe for concurrent use: one loop owns it.
type Governor struct{}

// New makes a governor in adaptive mode. Before the first window the traffic counts as LOW_TRAFFIC.
func New(rs rules.RuleSet, bootID string) *Governor { return &Governor{} }

// Evaluate takes the window that has just ended. The decision's snapshot is s with its state, algorithm and rules
// version filled in: the one to keep in the journal.
func (g *Governor) Evaluate(now time.Time, s traffic.Snapshot) Decision { return Decision{} }

// Reload puts new rules in force; the current state is mapped anew at once, ungated.
func (g *Governor) Reload(now time.Time, rs rules.RuleSet) Decision { return Decision{} }

// SetMode sets adaptive or fixed mode, and may reset and scale time. A mode that is not valid is an error and
// changes nothing.
func (g *Governor) SetMode(now time.Time, m Mode) (Decision, error) { return Decision{}, nil }

// Algorithm is the algorithm in force.
func (g *Governor) Algorithm() balance.Algorithm { return "" }

// Params are the settings of the algorithm in force.
func (g *Governor) Params() rules.Params { return rules.Params{} }

// State is the traffic state whose rule is in force.
func (g *Governor) State() traffic.State { return "" }

// Mode is the mode as it was set, without Reset.
func (g *Governor) Mode() Mode { return Mode{} }

// Rules is the rule set in force.
func (g *Governor) Rules() rules.RuleSet { return rules.RuleSet{} }

// Window is the length of a window: the rule set's, shortened by the time scale.
func (g *Governor) Window() time.Duration { return 0 }
