package ruleversions

import (
	"fmt"
	"regexp"
	"strings"
)

// Table is a table to append to a Markdown export, e.g. a verdict's findings. A row shorter than the header is filled
// up, a longer one cut.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Markdown exports a diff with its reasons, the tables below it, and the text diff last. Whatever came from a model or
// a person is escaped: it renders as the text that it is, never as markup.
func (d Diff) Markdown(tables ...Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Rules v%d → v%d\n\n", d.From, d.To)
	fmt.Fprintf(&b, "Origin: %s", escape(string(d.Origin)))
	if d.Author != "" {
		fmt.Fprintf(&b, ", by %s", escape(d.Author))
	}
	b.WriteString("\n")
	if d.Summary != "" {
		fmt.Fprintf(&b, "\n%s\n", paragraph(d.Summary))
	}
	if d.Same {
		b.WriteString("\nBoth versions make a proxy behave the same.\n")
	}
	d.rulesTable().write(&b)
	if t := d.settingsTable(); len(t.Rows) > 0 {
		t.write(&b)
	}
	for _, t := range tables {
		t.write(&b)
	}
	if d.Unified != "" {
		fence := fence(d.Unified)
		fmt.Fprintf(&b, "\n## Text\n\n%sdiff\n%s\n%s\n", fence, strings.TrimRight(d.Unified, "\n"), fence)
	}
	return b.String()
}

func (d Diff) rulesTable() Table {
	t := Table{Title: "Rules", Header: []string{"State", "Before", "After", "Reason"}}
	for _, r := range d.Rules {
		after := r.AfterText()
		if !r.Changed {
			after = "unchanged"
		}
		t.Rows = append(t.Rows, []string{string(r.State), r.BeforeText(), after, marked(r.Reason, r.Unsupported)})
	}
	return t
}

func (d Diff) settingsTable() Table {
	t := Table{Title: "Thresholds and gates", Header: []string{"Setting", "Before", "After", "Reason"}}
	for _, s := range d.Settings {
		t.Rows = append(t.Rows, []string{s.Path, s.Before, s.After, marked(s.Reason, s.Unsupported)})
	}
	return t
}

func marked(text string, unsupported []string) string {
	return Reason{Text: text, Unsupported: unsupported}.Marked()
}

func (t Table) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n", escape(t.Title))
	t.row(b, t.Header)
	b.WriteString("|" + strings.Repeat(" --- |", len(t.Header)) + "\n")
	for _, r := range t.Rows {
		t.row(b, r)
	}
}

func (t Table) row(b *strings.Builder, cells []string) {
	b.WriteString("|")
	for i := range t.Header {
		cell := ""
		if i < len(cells) {
			cell = escape(cells[i])
		}
		b.WriteString(" " + cell + " |")
	}
	b.WriteString("\n")
}

// special is what Markdown, or HTML within it, gives a meaning inside a line; entities keep addresses from becoming
// links. An underscore within a word has none.
var special = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "://", "&#58;//", "www.", "www&#46;", "@", "&#64;",
)

// leading is what makes a heading, a list or a rule at the start of a line.
var leading = regexp.MustCompile(`^(#|[-+=]|[0-9]+[.)])`)

// escape makes a text literal Markdown within a line.
func escape(s string) string {
	s = special.Replace(strings.Join(strings.Fields(s), " "))
	return escapeUnderscores(s)
}

// paragraph is escape for a text that stands at the start of a line.
func paragraph(s string) string {
	s = escape(s)
	if m := leading.FindString(s); m != "" {
		s = s[:len(m)-1] + `\` + s[len(m)-1:]
	}
	return s
}

// escapeUnderscores escapes those that are not between two letters or digits.
func escapeUnderscores(s string) string {
	r := []rune(s)
	var b strings.Builder
	for i, c := range r {
		if c == '_' && !(i > 0 && i+1 < len(r) && isWord(r[i-1]) && isWord(r[i+1])) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func isWord(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// fence is longer than any run of backticks in s, so that nothing in s ends the block.
func fence(s string) string {
	longest, run := 2, 0
	for _, c := range s {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return strings.Repeat("`", longest+1)
}
