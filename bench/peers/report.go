//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// result is a scenario as it is printed.
type result struct {
	Scenario string    `json:"scenario"`
	About    string    `json:"about"`
	Rounds   int       `json:"rounds"`
	Seconds  int       `json:"seconds"`
	Rows     []row     `json:"contenders"`
	Goals    []verdict `json:"goals"`
	Warnings []string  `json:"warnings,omitempty"`
	kind     kind
}

// row is one contender in a scenario: medians over rounds, ratios with their range.
type row struct {
	Contender string  `json:"contender"`
	RPS       float64 `json:"rps"`
	CPU       float64 `json:"cpu_s_per_100k"`
	Cores     float64 `json:"cores"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	Errors    int     `json:"errors"`
	Foreign   float64 `json:"foreign"`

	RPSToNginx   spread `json:"rps_to_nginx"`
	RPSToHAProxy spread `json:"rps_to_haproxy"`
	CPUToNginx   spread `json:"cpu_to_nginx"`
	CPUToHAProxy spread `json:"cpu_to_haproxy"`

	AddedP50 *spread `json:"added_p50_us,omitempty"` // over a backend alone; open load
	AddedP99 *spread `json:"added_p99_us,omitempty"`
	Memory   *held   `json:"memory,omitempty"`
	Runs     []run   `json:"runs,omitempty"`
}

// report makes the result of what a scenario showed.
func (o outcome) report(st *stand) result {
	r := result{Scenario: o.name, About: o.about, Rounds: st.options.rounds, Seconds: st.seconds, Goals: o.judge(), kind: o.kind}
	for _, c := range st.contenders {
		if h, ok := o.memory[c.name]; ok {
			r.Rows = append(r.Rows, row{Contender: c.name, Memory: &h})
		} else {
			r.Rows = append(r.Rows, o.row(c.name))
		}
	}
	if o.kind == idleMemory {
		return r
	}
	var disturbed []string
	for _, x := range r.Rows {
		if x.Foreign > noisy {
			disturbed = append(disturbed, fmt.Sprintf("%.0f %% of a core beside %s", 100*x.Foreign, x.Contender))
		}
	}
	if len(disturbed) > 0 {
		r.Warnings = append(r.Warnings, "the machine was not quiet: others took up to "+strings.Join(disturbed, ", "))
	}
	if r.Rounds < 5 || r.Seconds < 3 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d rounds of %d s are a look, not evidence: 5 of 3 s tell differences of 0.1 apart", r.Rounds, r.Seconds))
	}
	return r
}

func (o outcome) row(name string) row {
	r := row{
		Contender: name, RPS: o.median(name, rps), CPU: o.median(name, cpu), Cores: o.median(name, cores),
		P50: o.median(name, p50), P99: o.median(name, p99), Errors: o.errors(name), Foreign: o.foreign(name),
		RPSToNginx: o.ratio(name, nginx, rps), RPSToHAProxy: o.ratio(name, haproxy, rps), Runs: o.runs(name),
	}
	if name != direct {
		r.CPUToNginx, r.CPUToHAProxy = o.ratio(name, nginx, cpu), o.ratio(name, haproxy, cpu)
	}
	if o.kind == openLoad {
		a, b := o.added(name, p50), o.added(name, p99)
		r.AddedP50, r.AddedP99 = &a, &b
	}
	return r
}

// print writes the result as a table, with the goals beside the proxy's own row.
func (r result) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", r.Scenario, r.About)
	head, line := r.columns()
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(cells(append(head, "goal")))
	for _, x := range r.Rows {
		goals := ""
		if x.Contender == retune {
			goals = lines(r.Goals)
		}
		t.AppendRow(cells(append(append([]string{x.Contender}, line(x)...), goals)))
	}
	var columns []table.ColumnConfig
	for _, name := range head[1:] {
		columns = append(columns, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	fmt.Fprintln(w, t.Render())
	for _, s := range r.Warnings {
		fmt.Fprintln(w, "warning:", s)
	}
	fmt.Fprintln(w)
}

// columns are the header and what stands under it, but for the contender's name.
func (r result) columns() (head []string, line func(row) []string) {
	switch r.kind {
	case idleMemory:
		return []string{"contender", "start", "B each, 4,000", "B each, 10,000", "held"}, func(x row) []string {
			m := x.Memory
			return []string{fmt.Sprintf("%.1f MiB", float64(m.StartBytes)/(1<<20)), number(m.EachFewer), number(m.EachAll), number(float64(m.Held))}
		}
	case openLoad:
		return []string{"contender", "RPS", "CPU s/100k", "/ nginx", "/ haproxy", "p50", "p99", "added p50", "added p99", "errors", "foreign"}, func(x row) []string {
			return []string{
				number(x.RPS), fmt.Sprintf("%.2f", x.CPU), x.CPUToNginx.String(), x.CPUToHAProxy.String(), latency(x.P50), latency(x.P99),
				latency(x.AddedP50.Median), latency(x.AddedP99.Median), number(float64(x.Errors)), fmt.Sprintf("%.2f", x.Foreign),
			}
		}
	}
	return []string{"contender", "CPU s/100k", "/ nginx", "/ haproxy", "RPS", "RPS / nginx", "RPS / haproxy", "cores", "p50", "p99", "errors", "foreign"}, func(x row) []string {
		return []string{
			fmt.Sprintf("%.2f", x.CPU), x.CPUToNginx.String(), x.CPUToHAProxy.String(),
			number(x.RPS), fmt.Sprintf("%.2f", x.RPSToNginx.Median), fmt.Sprintf("%.2f", x.RPSToHAProxy.Median), fmt.Sprintf("%.2f", x.Cores),
			latency(x.P50), latency(x.P99), number(float64(x.Errors)), fmt.Sprintf("%.2f", x.Foreign),
		}
	}
}

// String is median and range; nothing where there is none.
func (s spread) String() string {
	if s == (spread{}) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Min, s.Max)
}

func number(x float64) string { return fmt.Sprintf("%.0f", x) }

func latency(us float64) string {
	return (time.Duration(us) * time.Microsecond).String()
}

func lines(all []verdict) string {
	var s []string
	for _, v := range all {
		s = append(s, v.String())
	}
	return strings.Join(s, "\n")
}

func cells(s []string) table.Row {
	r := make(table.Row, len(s))
	for i, c := range s {
		r[i] = c
	}
	return r
}
