// Package steering decides whether to hold the algorithm or to switch it.
//
// A Governor is fed one snapshot per window and answers with a Decision:
//
//	requests ─ traffic.Window ─ Snapshot ─ Governor.Evaluate ─ Decision ─ picker
//	                                            │
//	     same_state ─ confidence ─ cooldown ─ switch_rate ─ sustained     all five: switch
//	                                                                      else: hold
//
// A switch has to pass five gates: another state than the one in force, enough confidence, no cooldown running, an
// allowance of switches per minute, and enough windows in a row. A reload and a change of mode are not gated:
// they map the current state anew at once. Nothing here reads a clock or does I/O, so a recorded series of
// snapshots replays to the same decisions.
package steering

import (
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// Decision is the outcome of one evaluation.
type Decision struct {
	Seq    uint64    `json:"seq"` // the proxy's own counter, from 1; gapless within one boot
	BootID string    `json:"boot_id"`
	At     time.Time `json:"at"`

	State             traffic.State     `json:"state"`
	PreviousState     traffic.State     `json:"previous_state"`
	Algorithm         balance.Algorithm `json:"algorithm"`          // in force after this decision
	PreviousAlgorithm balance.Algorithm `json:"previous_algorithm"` // in force before it
	Switched          bool              `json:"switched"`           // the algorithm changed: this decision is a switch
	Confidence        float64           `json:"confidence"`
	Reason            string            `json:"reason"` // one sentence with the figures, for people
	Gates             []Gate            `json:"gates"`
	RulesVersion      int               `json:"rules_version"`
	Cause             Cause             `json:"cause"`
	Snapshot          traffic.Snapshot  `json:"snapshot"`
}

// Cause is what led to a decision.
type Cause string

// The causes of a decision.
const (
	CauseWindow Cause = "window" // a window ended: the gated path
	CauseReload Cause = "reload" // new rules: the current state is mapped anew at once, ungated
	CauseMode   Cause = "mode"   // adaptive or fixed mode was set
	CauseReset  Cause = "reset"  // windows and counts start anew, for a measurement
)

// Gate is one condition of a switch, as it stood.
type Gate struct {
	Name   string `json:"name"` // same_state | confidence | cooldown | switch_rate | sustained
	Passed bool   `json:"passed"`
	Detail string `json:"detail"` // e.g. "1/2 windows"
}

// Mode is how a proxy chooses its algorithm: the body of PUT /alb/mode.
type Mode struct {
	Mode      string            `json:"mode"`                // adaptive | fixed
	Algorithm balance.Algorithm `json:"algorithm,omitempty"` // with fixed
	// Reset starts windows, counts, cooldown, ejections and what was learned of backends anew, for both arms of a
	// measurement alike.
	Reset bool `json:"reset,omitempty"`
	// TimeScale shortens window and cooldown by this factor, (0, 1]; 0 leaves it as it is.
	TimeScale float64 `json:"time_scale,omitempty"`
}

// Status is what a proxy says of itself: the answer of GET /alb/status.
type Status struct {
	Mode      Mode              `json:"mode"`
	Algorithm balance.Algorithm `json:"algorithm"`
	State     traffic.State     `json:"state"`
	Rules     RulesStatus       `json:"rules"`
	Backends  []BackendStatus   `json:"backends"`
	Build     string            `json:"build,omitempty"` // of the proxy's program
	BootID    string            `json:"boot_id"`
	StartedAt time.Time         `json:"started_at"`
	UptimeS   float64           `json:"uptime_s"`
}

// RulesStatus says which rules a proxy runs, and whether they are its built-in safe ones.
type RulesStatus struct {
	Version     int       `json:"version"`
	Hash        string    `json:"sha256"`
	Generation  int64     `json:"generation"`
	EffectiveAt time.Time `json:"effective_at"`
	Trial       bool      `json:"trial,omitempty"` // in memory alone: the rule file still holds the rules before them
	Safe        bool      `json:"safe,omitempty"`  // the built-in safe rules are in force: no rule file could be used
}

// BackendStatus is one backend as the proxy sees it.
type BackendStatus struct {
	ID           string  `json:"id"`
	URL          string  `json:"url"`
	Weight       int     `json:"weight"`
	Health       string  `json:"health"` // healthy | unhealthy | ejected | draining | slow_start
	Why          string  `json:"why,omitempty"`
	InFlight     int64   `json:"in_flight"`
	AvgLatencyMS float64 `json:"avg_latency_ms"`
	Requests     uint64  `json:"requests"`
	Errors       uint64  `json:"errors"`
}
