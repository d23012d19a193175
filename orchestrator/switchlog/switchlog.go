// Package switchlog says what each switch of algorithm brought: p95, RPS and errors before it and after it.
//
// It is pure: decisions, snapshots and per-second series in, switches with figures out.
package switchlog

import (
	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// Switch is one change of algorithm, and what it brought.
type Switch struct {
	Scenario  string            `json:"scenario"`
	AtS       float64           `json:"at_s"` // from the start of the measured phase
	State     traffic.State     `json:"state"`
	From      balance.Algorithm `json:"from"`
	To        balance.Algorithm `json:"to"`
	Before    Figures           `json:"before"`
	After     Figures           `json:"after"`
	PaidOff   bool              `json:"paid_off"`
	Confident float64           `json:"confidence"` // of the decision, in [0, 0.99]
}

// Figures are p95, RPS and error rate over a span.
type Figures struct {
	RPS       float64 `json:"rps"`
	P95MS     float64 `json:"p95_ms"`
	ErrorRate float64 `json:"error_rate"` // share in [0, 1]
}

// Analyse finds the switches within one run and what each brought. The run is r's measured phase; decisions and
// snapshots of another time, and switches by a reset, a reload or a change of mode, are left out.
func Analyse(r loadtest.Result, decisions []steering.Decision, snapshots []traffic.Snapshot) []Switch {
	return nil
}
