package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"retune/proxy/balance"
)

// armFigures is one arm in one scenario, as the tables of bench and sim show it. Times are milliseconds.
type armFigures struct {
	scenario, arm      string
	rps, avg           float64
	p50, p95, p99      float64
	errors             float64    // share
	rpsRatio, p95Ratio float64    // to ROUND_ROBIN; 0: it was not measured
	simulated          *simFigure // nil: was not
	invalid            []string   // why it is no evidence
}

// simFigure is what the simulator says of an arm that was measured.
type simFigure struct {
	RPS   float64 `json:"rps"`
	P95MS float64 `json:"p95_ms"`
}

// firstRatios sets each row's ratios to ROUND_ROBIN in its scenario.
func firstRatios(rows []armFigures) {
	first := map[string]armFigures{}
	for _, r := range rows {
		if r.arm == string(balance.RoundRobin) {
			first[r.scenario] = r
		}
	}
	for i, r := range rows {
		if f := first[r.scenario]; f.rps > 0 && f.p95 > 0 {
			rows[i].rpsRatio, rows[i].p95Ratio = r.rps/f.rps, r.p95/f.p95
		}
	}
}

// printArms writes rows: one table per scenario, 80 columns wide, under its title; in the other formats one for all,
// or data.
func (f tableFlags) printArms(o *output, data any, rows []armFigures, titles map[string]string) error {
	if f.Output != "table" {
		head := []string{"scenario", "arm", "RPS", "RPS/RR", "avg ms", "p50 ms", "p95 ms", "p95/RR", "p99 ms", "errors", "RPS simulated", "p95 ms simulated", "no evidence because"}
		var cells [][]string
		for _, r := range rows {
			cells = append(cells, r.cells())
		}
		return f.print(o, data, head, cells, head[2:12]...)
	}
	for i := 0; i < len(rows); {
		n := i
		for n < len(rows) && rows[n].scenario == rows[i].scenario {
			n++
		}
		title := rows[i].scenario
		if t := titles[title]; t != "" {
			title += ": " + t
		}
		if _, err := fmt.Fprintf(o.out, "%s\n%s\n\n", text.WrapSoft(title, 80), armTable(rows[i:n])); err != nil {
			return err
		}
		i = n
	}
	return nil
}

// armTable is one scenario's table. What was simulated as well takes the place of p50 and p99.
func armTable(rows []armFigures) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options = table.Options{SeparateHeader: true}
	simulated := rows[0].simulated != nil
	head := table.Row{"times in ms", "RPS", "RPS/RR", "p50", "p95", "p95/RR", "p99", "errors"}
	if simulated {
		head = table.Row{"times in ms", "RPS", "sim", "RPS/RR", "p95", "sim", "p95/RR", "errors"}
	}
	t.AppendHeader(head)
	var columns []table.ColumnConfig
	for i := range head[1:] {
		columns = append(columns, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	var notes strings.Builder
	for _, r := range rows {
		c := r.cells()
		if simulated {
			t.AppendRow(table.Row{c[1], c[2], c[10], c[3], c[6], c[11], c[7], c[9]})
		} else {
			t.AppendRow(table.Row{c[1], c[2], c[3], c[5], c[6], c[7], c[8], c[9]})
		}
		if c[12] != "" {
			fmt.Fprintf(&notes, "\n%s", text.WrapSoft(r.arm+" is no evidence: "+c[12], 80))
		}
	}
	return t.Render() + notes.String()
}

// cells are all that there is to say of an arm, in words.
func (r armFigures) cells() []string {
	whole := func(x float64) string { return fmt.Sprintf("%.0f", x) }
	ratio := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", x)
	}
	c := []string{r.scenario, r.arm, fmt.Sprintf("%.1f", r.rps), ratio(r.rpsRatio), whole(r.avg), whole(r.p50), whole(r.p95),
		ratio(r.p95Ratio), whole(r.p99), fmt.Sprintf("%.2f%%", 100*r.errors), "", "", strings.Join(r.invalid, "; ")}
	if s := r.simulated; s != nil {
		c[10], c[11] = fmt.Sprintf("%.1f", s.RPS), whole(s.P95MS)
	}
	return c
}
