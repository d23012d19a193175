// Package rules is the document that the proxy obeys: detection thresholds, switching gates and one rule
// per traffic state.
//
// Parse is strict and reports every fault with its place; Render writes the one canonical form, so that a
// parsed document that we wrote renders to the same bytes. A rule set's identity is the SHA-256 of its bytes.
//
// The file is UTF-8, at most 64 KiB, one YAML document without anchors, aliases, merge keys and tags:
//
//	version: 9
//	parent: 8                        # 0: none
//	origin: llm                      # llm | local | human
//	detection:                       # when the traffic is in which state
//	  window: 10s                    # 1s..5m
//	  low_traffic_rps: 5             # 0..1000000
//	  gradual_increase_rate: 0.30    # 0.01..100
//	  spike_rate: 1.00               # 0.01..100
//	  overload_error_rate: 0.10      # 0.001..1
//	  overload_latency: 500ms        # 1ms..5m
//	  overload_latency_factor: 2.0   # 1..100
//	  latency_slope_windows: 6       # 3..60
//	switching:                       # what a change of algorithm has to pass
//	  min_confidence: 0.6            # 0..0.99
//	  cooldown: 10s                  # 0s..10m
//	  max_switches_per_minute: 3     # 1..60
//	  sustained_windows: 3           # 1..20
//	  spike_sustained_windows: 2     # 1..20
//	rules:                           # all five states, each once
//	  LOW_TRAFFIC: { algorithm: ROUND_ROBIN, reason: "why" }
//	  SPIKE:       { algorithm: P2C_PEAK_EWMA, reason: "why", params: { decay: 5s } }
//
// Every key has to be there except params.
package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// MaxSize is how large a rule file may be, in bytes.
const MaxSize = 64 << 10

// Origin says where a rule set came from.
type Origin string

// The origins of a rule set.
const (
	OriginLLM   Origin = "llm"
	OriginLocal Origin = "local"
	OriginHuman Origin = "human"
)

// RuleSet is a parsed rule file.
type RuleSet struct {
	Version   int                    `json:"version"`
	Parent    int                    `json:"parent"` // 0: none
	Origin    Origin                 `json:"origin"`
	Detection traffic.Detection      `json:"detection"`
	Switching Switching              `json:"switching"`
	Rules     map[traffic.State]Rule `json:"rules"` // all five states, each once
}

// Rule says which algorithm serves a traffic state, and why.
type Rule struct {
	Algorithm balance.Algorithm `json:"algorithm"`
	Reason    string            `json:"reason"`
	Params    Params            `json:"params,omitzero"`
}

// Params are an algorithm's own settings; the zero value means its defaults.
type Params struct {
	Decay time.Duration `json:"decay,omitempty"` // P2C_PEAK_EWMA only: 100ms..10m
}

// Switching is the gates that a change of algorithm has to pass: the `switching` part of a rule set.
type Switching struct {
	MinConfidence         float64       `json:"min_confidence"`          // 0..0.99
	Cooldown              time.Duration `json:"cooldown"`                // 0s..10m
	MaxSwitchesPerMinute  int           `json:"max_switches_per_minute"` // 1..60
	SustainedWindows      int           `json:"sustained_windows"`       // 1..20
	SpikeSustainedWindows int           `json:"spike_sustained_windows"` // 1..20
}

// Hash is the SHA-256 of a rule file's bytes, in hex: the identity of what a proxy runs.
type Hash string

// Sum hashes the bytes of a rule file.
func Sum(yaml []byte) Hash {
	h := sha256.Sum256(yaml)
	return Hash(hex.EncodeToString(h[:]))
}

// Active is what a proxy runs: its answer to a reload, and part of its status.
type Active struct {
	Version     int       `json:"version"`
	Hash        Hash      `json:"sha256"`
	Generation  int64     `json:"generation"` // of the orchestrator's pointer; 0: set by hand
	BootID      string    `json:"boot_id"`    // new at each start of the proxy
	EffectiveAt time.Time `json:"effective_at"`
	Trial       bool      `json:"trial,omitempty"` // in memory alone: the proxy's file still holds the rules before them
}
