package rules

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong in a rule file. Line and Column count from 1; 0 means the file as a whole.
type Fault struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty"`    // e.g. "rules.SPIKE.algorithm"
	Text    string `json:"text"`              // what is wrong
	Excerpt string `json:"excerpt,omitempty"` // the offending line, shortened
	Fix     string `json:"fix,omitempty"`     // what would be right
}

// Faults is every fault of one rule file, sorted by place. It is the error that Parse returns.
type Faults struct {
	File string  `json:"file"`
	List []Fault `json:"faults"`
}

// Lines is one line per fault: FILE:line:column: text.
func (f *Faults) Lines() []string {
	lines := make([]string, len(f.List))
	for i, x := range f.List {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", f.File, x.Line, x.Column, x.Text)
	}
	return lines
}

// Error is Lines, one under the other.
func (f *Faults) Error() string { return strings.Join(f.Lines(), "\n") }
