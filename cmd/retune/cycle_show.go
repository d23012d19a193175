package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"retune/orchestrator"
	"retune/orchestrator/detection"
	"retune/proxy/traffic"
)

type cycleShowCmd struct {
	cycleArg
	tableFlags
}

// shownCycle is what the command prints, as JSON whole.
type shownCycle struct {
	orchestrator.Cycle
	Switches  []orchestrator.RunSwitch `json:"switches"`
	Detection detection.Summary        `json:"detection"`
}

// Help is what --help says below the command's line.
func (*cycleShowCmd) Help() string {
	return "It prints up to three tables: the verdict, the switches of algorithm and whether they paid, and how the proxy named the " +
		"traffic's true states. -o csv prints the switches alone, -o json everything."
}

// Run shows one cycle, whatever it ended as; the exit code says only whether it could be shown.
func (c *cycleShowCmd) Run(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	var k shownCycle
	if err := api.call(ctx, http.MethodGet, cyclePath(c.ID), nil, &k.Cycle); err != nil {
		return err
	}
	var page struct {
		Items []orchestrator.RunSwitch `json:"items"`
	}
	if err := api.call(ctx, http.MethodGet, cyclePath(c.ID)+"/switches", nil, &page); err != nil {
		return err
	}
	k.Switches = page.Items
	if err := api.call(ctx, http.MethodGet, cyclePath(c.ID)+"/detection", nil, &k.Detection); err != nil {
		return err
	}
	return c.show(o, k)
}

func (c *cycleShowCmd) show(o *output, k shownCycle) error {
	switch c.Output {
	case "json", "yaml":
		return c.print(o, k, nil, nil)
	case "csv":
		return c.printSwitches(o, k.Switches)
	}
	fmt.Fprintf(o.out, "Cycle %d, %s\n", k.ID, ending(k.Cycle))
	if k.Verdict != nil {
		fmt.Fprintln(o.out, "\nVerdict")
		if err := c.findings(o, k.Cycle, k.Verdict.Findings); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.out, "\nSwitches of algorithm: %d\n", len(k.Switches))
	if len(k.Switches) > 0 {
		if err := c.printSwitches(o, k.Switches); err != nil {
			return err
		}
	}
	return c.printDetection(o, k.Detection)
}

func (f tableFlags) printSwitches(o *output, switches []orchestrator.RunSwitch) error {
	var rows [][]string
	for _, s := range switches {
		rows = append(rows, []string{strconv.FormatInt(s.Run, 10), s.Scenario, fmt.Sprintf("%.0f s", s.AtS), string(s.State),
			string(s.From) + " → " + string(s.To), string(s.Outcome), s.Why})
	}
	return f.print(o, switches, []string{"run", "scenario", "at", "state", "switch", "outcome", "why"}, rows, "run", "at")
}

// printDetection prints the confusion matrix of the champion's thresholds: a row per true state.
func (f tableFlags) printDetection(o *output, d detection.Summary) error {
	m := d.Champion
	if m.Windows == 0 {
		fmt.Fprintln(o.out, "\nDetection: no window's true state is known")
		return nil
	}
	fmt.Fprintf(o.out, "\nDetection: %d of %d windows named as they truly were (%d more lie across two states)\n", m.Agreed, m.Windows, m.Across)
	header := []string{"truly"}
	for _, s := range traffic.States() {
		header = append(header, "named "+string(s))
	}
	var rows [][]string
	for _, truth := range traffic.States() {
		row := []string{string(truth)}
		for _, s := range traffic.States() {
			row = append(row, strconv.Itoa(m.Matrix[truth][s]))
		}
		rows = append(rows, row)
	}
	if err := f.print(o, d, header, rows, header[1:]...); err != nil {
		return err
	}
	if c := d.Classified; c.Windows > 0 {
		fmt.Fprintf(o.out, "The classifier (%s), afterwards: %d of %d\n", d.Classifier, c.Agreed, c.Windows)
	}
	for _, s := range d.Suggestions {
		fmt.Fprintf(o.out, "%s %s → %s: %s\n", strings.TrimPrefix(s.Path, "detection."), s.Now, s.Better, s.Why)
	}
	return nil
}
