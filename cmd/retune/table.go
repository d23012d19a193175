package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// tableFlags chooses how a table is printed.
type tableFlags struct {
	Output string `short:"o" help:"How to print: ${enum}." enum:"table,json,yaml,markdown,csv" default:"table"`
}

// print writes rows, or data itself as JSON or YAML. Columns whose names are in right are right-aligned.
func (f tableFlags) print(o *output, data any, header []string, rows [][]string, right ...string) error {
	switch f.Output {
	case "json":
		e := json.NewEncoder(o.out)
		e.SetIndent("", "  ")
		return e.Encode(data)
	case "yaml":
		b, err := json.Marshal(data)
		if err != nil {
			return err
		}
		if b, err = yaml.JSONToYAML(b); err == nil {
			_, err = o.out.Write(b)
		}
		return err
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateRows = false
	t.AppendHeader(cells(header))
	var columns []table.ColumnConfig
	for _, name := range header {
		if f.Output == "table" && !slices.Contains(right, name) {
			columns = append(columns, table.ColumnConfig{Name: name, WidthMax: 72, WidthMaxEnforcer: text.WrapSoft}) // longer texts wrap
		}
	}
	for _, name := range right {
		columns = append(columns, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	render := map[string]func() string{"markdown": t.RenderMarkdown, "csv": t.RenderCSV}[f.Output]
	if render == nil {
		render = t.Render
	}
	_, err := fmt.Fprintln(o.out, strings.TrimRight(render(), "\n"))
	return err
}

func cells(s []string) table.Row {
	r := make(table.Row, len(s))
	for i, c := range s {
		r[i] = c
	}
	return r
}
