// Package ruleversions is the archive of rule sets: immutable, numbered versions with their parent, origin,
// evidence and reasons, and the differences between any two.
package ruleversions

import (
	"regexp"
	"strings"
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

// Unsupported is how many figures of the reasons and of the summary are not in the evidence that they were written from.
func (v Version) Unsupported() int {
	_, list := Unmarked(v.Summary)
	n := len(list)
	for _, r := range v.Reasons {
		n += len(r.Unsupported)
	}
	return n
}

// Reason is why one part of a rule set is as it is.
type Reason struct {
	Path string `json:"path"` // e.g. "rules.SPIKE" or "detection.spike_rate"
	Text string `json:"text"`
	// Unsupported lists the figures of Text that are not in the evidence it was written from.
	Unsupported []string `json:"unsupported,omitempty"`
}

// Marked is the text with a note of its figures that are not in the evidence. It is what stands in a rule file, so
// that whoever shows the file's reason shows the note: the proxy in its decisions, too.
func (r Reason) Marked() string {
	if len(r.Unsupported) == 0 {
		return r.Text
	}
	note := " (unsupported: " + strings.Join(r.Unsupported, ", ") + ")"
	return strings.TrimSuffix(r.Text, note) + note
}

// ReasonIn is the reason that stands in a rule file, its note taken apart again.
func ReasonIn(path, text string) Reason {
	said, unsupported := Unmarked(text)
	return Reason{Path: path, Text: said, Unsupported: unsupported}
}

var noteRE = regexp.MustCompile(`^(.*) \(unsupported: ([^()]+)\)$`)

// Unmarked takes a text apart that Marked has made.
func Unmarked(text string) (said string, unsupported []string) {
	found := noteRE.FindStringSubmatch(text)
	if found == nil {
		return text, nil
	}
	return found[1], strings.Split(found[2], ", ")
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
