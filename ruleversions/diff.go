package ruleversions

import (
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// NoReason stands where a change came without one.
const NoReason = "no reason given"

// Diff is what changed from one version to another.
type Diff struct {
	From     int             `json:"from"`
	To       int             `json:"to"`
	Same     bool            `json:"same"`     // both make a proxy behave the same
	Rules    []RuleChange    `json:"rules"`    // one per traffic state, unchanged ones too
	Settings []SettingChange `json:"settings"` // thresholds and gates that changed
	Unified  string          `json:"unified"`  // unified diff of the two YAML texts; empty: the same bytes
}

// RuleChange is one state's rule before and after.
type RuleChange struct {
	State           traffic.State     `json:"state"`
	Changed         bool              `json:"changed"` // algorithm or params
	Before          balance.Algorithm `json:"before"`
	After           balance.Algorithm `json:"after"`
	ParamsBefore    rules.Params      `json:"params_before,omitzero"`
	ParamsAfter     rules.Params      `json:"params_after,omitzero"`
	Reason          string            `json:"reason"` // of the newer version
	ReasonUnchanged bool              `json:"reason_unchanged,omitempty"`
	Unsupported     []string          `json:"unsupported,omitempty"` // figures of Reason that are not in its evidence
}

// SettingChange is one threshold or gate before and after, as written in the rule file.
type SettingChange struct {
	Path        string   `json:"path"` // e.g. "switching.cooldown"
	Before      string   `json:"before"`
	After       string   `json:"after"`
	Reason      string   `json:"reason"`
	Unsupported []string `json:"unsupported,omitempty"`
}

// Compare lists what changed from a to b.
func Compare(a, b Version) Diff { return Diff{} }

// Text is the unified diff of the two YAML texts.
func (d Diff) Text() string { return d.Unified }
