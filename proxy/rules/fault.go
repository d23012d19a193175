package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong in a rule file. Line and Column count from 1, in characters.
type Fault struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty"`    // e.g. "rules.SPIKE.algorithm"
	Text    string `json:"text"`              // what is wrong, quoting what stands there
	Excerpt string `json:"excerpt,omitempty"` // the offending line, shortened
	Fix     string `json:"fix,omitempty"`     // what would be right
}

// String is the text and the fix, in one line.
func (f Fault) String() string {
	if f.Fix == "" {
		return f.Text
	}
	return f.Text + "; " + f.Fix
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
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", f.File, x.Line, x.Column, x)
	}
	return lines
}

// Error is Lines, one under the other.
func (f *Faults) Error() string { return strings.Join(f.Lines(), "\n") }

// place is where something stands in the file, from 1.
type place struct{ line, column int }

// faulter collects faults, and quotes the lines that they are in.
type faulter struct {
	lines []string
	list  []Fault
}

func newFaulter(b []byte) *faulter { return &faulter{lines: strings.Split(string(b), "\n")} }

// add notes one fault.
func (r *faulter) add(at place, path, fix, format string, a ...any) {
	f := Fault{Line: max(at.line, 1), Column: max(at.column, 1), Path: path, Text: fmt.Sprintf(format, a...), Fix: fix}
	if f.Line <= len(r.lines) {
		f.Excerpt = shorten(strings.TrimSpace(strings.ToValidUTF8(r.lines[f.Line-1], "\uFFFD")), 80)
	}
	r.list = append(r.list, f)
}

// err is everything noted, sorted by place; nil when there is nothing.
func (r *faulter) err(file string) error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Faults{File: file, List: r.list}
}

// shorten cuts a text to n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
