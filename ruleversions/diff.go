package ruleversions

import (
	"fmt"

	"github.com/aymanbagabas/go-udiff"

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
	Origin   rules.Origin    `json:"origin"` // of the newer version, like Author and Summary
	Author   string          `json:"author,omitempty"`
	Summary  string          `json:"summary,omitempty"`
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

// Compare lists what changed from a to b, with b's reasons.
func Compare(a, b Version) Diff {
	d := Diff{
		From: a.Number, To: b.Number, Origin: b.Origin, Author: b.Author, Summary: b.Summary,
		Same:     rules.Same(a.Rules, b.Rules),
		Settings: []SettingChange{},
		Unified:  udiff.Unified(label(a), label(b), a.YAML, b.YAML),
	}
	for _, state := range traffic.States() {
		d.Rules = append(d.Rules, compareRule(state, a, b))
	}
	before := a.Rules.Settings()
	for i, after := range b.Rules.Settings() {
		if before[i].Value != after.Value {
			r := b.reason(after.Path)
			d.Settings = append(d.Settings, SettingChange{after.Path, before[i].Value, after.Value, r.Text, r.Unsupported})
		}
	}
	return d
}

func compareRule(state traffic.State, a, b Version) RuleChange {
	before, after := a.Rules.Rules[state], b.Rules.Rules[state]
	r := b.reason("rules." + string(state))
	if after.Reason != "" && after.Reason != r.Marked() {
		r.Text = after.Reason
	}
	return RuleChange{
		State:   state,
		Changed: before.Algorithm != after.Algorithm || before.Params != after.Params,
		Before:  before.Algorithm, ParamsBefore: before.Params,
		After: after.Algorithm, ParamsAfter: after.Params,
		Reason: r.Text, ReasonUnchanged: before.Reason == after.Reason, Unsupported: r.Unsupported,
	}
}

// reason is why one part of a version is as it is.
func (v Version) reason(path string) Reason {
	for _, r := range v.Reasons {
		if r.Path == path && r.Text != "" {
			return r
		}
	}
	return Reason{Path: path, Text: NoReason}
}

func label(v Version) string { return fmt.Sprintf("v%d", v.Number) }

// Text is the unified diff of the two YAML texts; empty when they are the same bytes.
func (d Diff) Text() string { return d.Unified }

// BeforeText and AfterText name an algorithm with its params, for a table: "P2C_PEAK_EWMA (decay 5s)".
func (c RuleChange) BeforeText() string { return named(c.Before, c.ParamsBefore) }

// AfterText is like BeforeText.
func (c RuleChange) AfterText() string { return named(c.After, c.ParamsAfter) }

func named(a balance.Algorithm, p rules.Params) string {
	if p.Decay == 0 {
		return string(a)
	}
	return string(a) + " (decay " + p.Decay.String() + ")"
}
