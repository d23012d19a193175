package ruleversions

// Table is a table to append to a Markdown export, e.g. a verdict's findings.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Markdown exports a diff with its reasons, and the tables below it.
func (d Diff) Markdown(tables ...Table) string { return "" }
