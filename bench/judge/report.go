package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"gonum.org/v1/gonum/stat"

	"retune/orchestrator/verdict"
)

// print writes a trial as a table.
func (o outcome) print(w io.Writer) {
	calibrated := "calibrated"
	if !o.Calibrated {
		calibrated = "never calibrated"
	}
	fmt.Fprintf(w, "%s; looks of %s (at most %d pairs), %s. A pair's p95 ratio scatters by %s: %d pairs needed\n",
		o.Machine, o.Looks, o.Pairs, calibrated, percent(math.Expm1(o.Noise)), o.Needed)
	t := newTable("true difference", "kept", "rolled back", "inconclusive", "pairs", "one run: kept", "rolled back", "goal")
	for _, c := range o.Counts {
		t.AppendRow(table.Row{
			c.truth, percent(c.Kept), percent(c.RolledBack), percent(c.Inconclusive), fmt.Sprintf("%.1f", c.Pairs),
			percent(c.OneRunKept), percent(math.Abs(1 - c.OneRunKept)), o.goals(c),
		})
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())
}

func (o outcome) goals(c counted) string {
	var lines []string
	for _, g := range goalsOf(c.truth, o.Looks) {
		word := "met"
		if !g.met(c, o.Cycles, 0) {
			word = "MISSED"
			if g.atLeast && o.Needed > o.Pairs {
				word += fmt.Sprintf(": such noise needs %d pairs", o.Needed)
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s", g, word))
	}
	return strings.Join(lines, "\n")
}

// newTable is a table whose columns between the first and the last are figures.
func newTable(head ...string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	row := table.Row{}
	var columns []table.ColumnConfig
	for i, name := range head {
		row = append(row, name)
		if i > 0 && i < len(head)-1 {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(columns)
	return t
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// String reads like "p95 × 1.3 in one".
func (t truth) String() string {
	where := "in one"
	if t.All {
		where = "in all"
	}
	switch {
	case t.Points > 0:
		return fmt.Sprintf("+%g points of errors %s", t.Points, where)
	case t.Ratio == 1:
		return "equal arms"
	case t.Real:
		return fmt.Sprintf("backends %g times as slow", t.Ratio)
	}
	return fmt.Sprintf("p95 × %g %s", t.Ratio, where)
}

// worst is a goal with the machine that comes nearest to missing it, or misses it by most.
type worst struct {
	goal  goal
	share float64
	where string
	met   bool
}

// see takes a count into account.
func (w *worst) see(o outcome, c counted) {
	share := w.goal.share(c)
	worse := share > w.share
	if w.goal.atLeast {
		worse = share < w.share
	}
	if worse || math.IsNaN(w.share) {
		w.share, w.where = share, fmt.Sprintf("%s, %s (looks of %s)", c.truth, o.Machine, o.Looks)
	}
	w.met = w.met && w.goal.met(c, o.Cycles, 0)
}

// sum is the worst of every goal.
func sum(all []outcome) (goalsMet []worst) {
	for _, g := range goals {
		w := worst{goal: g, met: true, share: math.NaN()}
		for _, o := range all {
			for _, c := range o.Counts {
				if g.of(c.truth) && (g.only == "" || g.only == o.Looks) {
					w.see(o, c)
				}
			}
		}
		goalsMet = append(goalsMet, w)
	}
	return goalsMet
}

// printWorst writes what became of each goal, on the machine that is hardest for it.
func printWorst(w io.Writer, all []worst) {
	fmt.Fprintln(w, "Goals, where they are hardest to meet")
	t := newTable("goal", "", "share", "", "where")
	for _, x := range all {
		word := "met"
		if !x.met {
			word = "MISSED"
		}
		t.AppendRow(table.Row{x.goal.truth, x.goal, percent(x.share), word, x.where})
	}
	fmt.Fprintln(w, t.Render())
}

// print says how noisy the recorded runs are, and whether a slower candidate is what a multiplied p95 makes of one.
func (r recording) print(w io.Writer) {
	fmt.Fprintf(w, "Recorded pairs of equal arms, runs of %s length, the machine %s busy\n", r.profile, percent(r.busy))
	t := newTable("scenario", "pairs", "median p95", "p95 ratio, mean and its error", "SD of its log", "over +15%", "SD of log RPS ratio", "errors")
	for _, pairs := range r.pairs {
		var p95, logs, errors []float64
		s, over := verdict.Scatter{}, 0.0
		s.AddEqual(pairs...)
		for _, p := range pairs {
			a, b := p.Champion, p.Candidate
			p95, errors = append(p95, a.P95MS, b.P95MS), append(errors, a.ErrorRate, b.ErrorRate)
			d := math.Log(b.P95MS / a.P95MS)
			logs = append(logs, d)
			if math.Abs(d) > math.Log(1.15) { // one of the two ways round
				over += 0.5 / float64(len(pairs))
			}
		}
		slices.Sort(p95)
		mean, sd := stat.MeanStdDev(logs, nil)
		name := pairs[0].Scenario
		known := s.Noise(name)
		t.AppendRow(table.Row{name, len(logs), fmt.Sprintf("%.0f ms", stat.Quantile(0.5, stat.Empirical, p95, nil)),
			fmt.Sprintf("%.3f ± %.3f", math.Exp(mean), stat.StdErr(sd, float64(len(logs)))), fmt.Sprintf("%.3f", known[0].SD), percent(over),
			fmt.Sprintf("%.3f", known[1].SD), percent(stat.Mean(errors, nil))})
	}
	fmt.Fprintln(w, t.Render())
	for _, s := range r.slowed {
		s.print(w)
	}
	fmt.Fprintln(w)
}

// print says what p95s a slower backend really gives.
func (s slowedPairs) print(w io.Writer) {
	var ratios []float64
	for _, p := range s.pairs {
		ratios = append(ratios, p.Candidate.P95MS/p.Champion.P95MS)
	}
	slices.Sort(ratios)
	fmt.Fprintf(w, "Backends %g times as slow, steady, %d pairs: p95 × %.2f, from %.2f to %.2f\n",
		s.factor, len(ratios), stat.Quantile(0.5, stat.Empirical, ratios, nil), ratios[0], ratios[len(ratios)-1])
}
