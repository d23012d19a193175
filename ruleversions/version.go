// Package ruleversions is the archive of rule sets: immutable, numbered versions with their parent, origin,
// evidence and reasons, and the differences between any two.
package ruleversions

import (
	"time"

	"retune/proxy/rules"
)

// Version is an immutable, numbered rule set.
type Version struct {
	Number  int           `json:"version"`
	Parent  int           `json:"parent"` // 0: none
	Origin  rules.Origin  `json:"origin"`
	Author  string        `json:"author"` // model name, "local", or who typed it
	Rules   rules.RuleSet `json:"rules"`
	YAML    string        `json:"yaml"` // the bytes that proxies run
	Hash    rules.Hash    `json:"sha256"`
	Summary string        `json:"summary"`
	Reasons []Reason      `json:"reasons"`
	CycleID int64         `json:"cycle_id,omitempty"` // the cycle that proposed it; 0: none
	Prompt  string        `json:"prompt_sha256,omitempty"`
	Created time.Time     `json:"created_at"`
	Status  Status        `json:"status"` // derived from the pointer and its cycle, not part of the immutable record
}

// Reason is why one part of a rule set is as it is.
type Reason struct {
	Path string `json:"path"` // e.g. "rules.SPIKE" or "detection.spike_rate"
	Text string `json:"text"`
	// Unsupported lists the figures of Text that are not in the evidence it was written from.
	Unsupported []string `json:"unsupported,omitempty"`
}

// Status is how a version stands.
type Status string

// The statuses of a version.
const (
	StatusActive       Status = "active"       // the proxies run it
	StatusOnTrial      Status = "on_trial"     // a cycle is measuring it
	StatusKept         Status = "kept"         // was proved better or equal, and has been replaced since
	StatusRolledBack   Status = "rolled_back"  // was measured and found worse
	StatusInconclusive Status = "inconclusive" // was measured and could not be told apart well enough
	StatusUnproved     Status = "unproved"     // its cycle ended before a verdict
	StatusRetired      Status = "retired"      // was active by hand, and has been replaced since
)

// Draft is a version before it has a number.
type Draft struct {
	Parent  int
	Origin  rules.Origin
	Author  string
	Rules   rules.RuleSet // its Version, Parent and Origin are set by the archive
	Summary string
	Reasons []Reason
	CycleID int64
	Prompt  string // SHA-256 of the prompt, in hex; empty: no prompt
}
