package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/sim"
)

// simCmd is bench without sockets: minutes of load in milliseconds.
type simCmd struct {
	Scenario  []string `help:"Only these scenarios. Repeatable."`
	Algorithm []string `help:"Only these algorithms. Repeatable."`
	Rules     []string `help:"Rule files that run beside the fixed algorithms, switching as in the proxy. Repeatable." type:"existingfile" placeholder:"FILE"`
	Seeds     int      `help:"How often each is run, with other random numbers; the figures are medians. 1 to 100." default:"3"`
	tableFlags
}

// simRow is one arm in one scenario, with the names of bench's rows. Figures are medians over the seeds.
type simRow struct {
	Scenario string    `json:"scenario"`
	Arm      string    `json:"arm"` // ORACLE: the limit
	Ratio    float64   `json:"rps_to_round_robin"`
	P95Ratio float64   `json:"p95_to_round_robin"`
	P95Limit float64   `json:"p95_to_limit"`
	Seeds    int       `json:"seeds"`
	Switches float64   `json:"switches"` // of the algorithm, by a rule file
	Result   simResult `json:"result"`
}

type simResult struct {
	RPS       float64 `json:"rps"`
	ErrorRate float64 `json:"error_rate"`
	AvgMS     float64 `json:"avg_ms"`
	P50MS     float64 `json:"p50_ms"`
	P95MS     float64 `json:"p95_ms"`
	P99MS     float64 `json:"p99_ms"`
}

// Run simulates the reference loads under every algorithm and prints bench's table.
func (c *simCmd) Run(ctx context.Context, o *output) error {
	if c.Seeds < 1 || c.Seeds > 100 {
		return usage("--seeds %d: want 1 to 100", c.Seeds)
	}
	scenarios, err := c.scenarios()
	if err != nil {
		return err
	}
	arms, err := c.arms()
	if err != nil {
		return err
	}
	began := time.Now()
	rows, err := sim.Compare(ctx, scenarios, arms, firstSeeds(c.Seeds))
	if err != nil {
		return err
	}
	fmt.Fprintf(o.err, "Scenarios: %d; arms: %d and the limit (ORACLE sees queues and service times); in %v.\n"+
		"Medians over %d seeds. No health checks and no retries: what the algorithm does alone.\n\n",
		len(scenarios), len(arms), time.Since(began).Round(time.Millisecond), c.Seeds)
	return c.show(o, rows)
}

func (c *simCmd) scenarios() (chosen []sim.Scenario, err error) {
	var names []string
	for _, s := range sim.Reference() {
		names = append(names, s.Name)
		if len(c.Scenario) == 0 || slices.Contains(c.Scenario, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, n := range c.Scenario {
		if !slices.Contains(names, n) {
			return nil, usage("no scenario %q; there are %s", n, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// arms are the algorithms and then the rule files.
func (c *simCmd) arms() ([]sim.Arm, error) {
	algorithms, err := pickAlgorithms(c.Algorithm)
	if err != nil {
		return nil, err
	}
	arms := sim.Fixed(algorithms)
	for _, file := range c.Rules {
		rs, _, err := parseRuleFile(file)
		if err != nil {
			return nil, err
		}
		arms = append(arms, sim.Arm{Name: filepath.Base(file), Rules: &rs})
	}
	return arms, nil
}

// parseRuleFile reads a rule file for an arm, and its bytes. Every fault in it is the caller's.
func parseRuleFile(file string) (rules.RuleSet, []byte, error) {
	b, err := readRuleFile(file)
	if err != nil {
		return rules.RuleSet{}, nil, usage("reading the rule file: %w", err)
	}
	rs, err := rules.Parse(file, b)
	if err != nil {
		return rules.RuleSet{}, nil, &exitError{exitUsage, err}
	}
	return rs, b, nil
}

// pickAlgorithms are those of these names, in any case; all when there are none.
func pickAlgorithms(names []string) (all []balance.Algorithm, err error) {
	if len(names) == 0 {
		return balance.Algorithms(), nil
	}
	for _, n := range names {
		a := balance.Algorithm(strings.ToUpper(n))
		if !a.Known() {
			return nil, usage("no algorithm %q; there are %s", n, strings.Trim(fmt.Sprint(balance.Algorithms()), "[]"))
		}
		all = append(all, a)
	}
	return all, nil
}

func firstSeeds(n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	return seeds
}

func (c *simCmd) show(o *output, rows []sim.Row) error {
	limit, titles := map[string]float64{}, map[string]string{}
	figures := make([]armFigures, len(rows))
	for i, r := range rows {
		figures[i] = simulatedFigures(r)
		titles[r.Scenario.Name] = r.Scenario.Description
		if r.Arm.Algorithm == sim.Oracle {
			limit[r.Scenario.Name] = figures[i].p95
		}
	}
	firstRatios(figures)
	data := make([]simRow, len(rows))
	for i, f := range figures {
		data[i] = simRow{f.scenario, f.arm, f.rpsRatio, f.p95Ratio, f.p95 / limit[f.scenario], c.Seeds,
			rows[i].Median(func(x sim.Result) float64 { return float64(x.Switches) }),
			simResult{f.rps, f.errors, f.avg, f.p50, f.p95, f.p99}}
	}
	return c.printArms(o, data, figures, titles)
}

// simulatedFigures are the medians of a row.
func simulatedFigures(r sim.Row) armFigures {
	quantile := func(q float64) float64 {
		return r.Median(func(x sim.Result) float64 { return x.Quantile(q).Seconds() * 1000 })
	}
	return armFigures{
		scenario: r.Scenario.Name, arm: r.Arm.Name,
		rps: r.Median(func(x sim.Result) float64 { return x.RPS }),
		avg: r.Median(func(x sim.Result) float64 { return x.Mean().Seconds() * 1000 }),
		p50: quantile(.50), p95: quantile(.95), p99: quantile(.99),
		errors: r.Median(sim.Result.ErrorRate),
	}
}

// simulate is what the simulator says of a scenario that bench puts on real sockets, under each algorithm: nil for
// loads that it has no model of. overhead is what the machine adds to each request.
func simulate(ctx context.Context, s loadtest.Scenario, overhead time.Duration, algorithms []balance.Algorithm) (map[string]*simFigure, error) {
	closed := s.Shape.Closed
	if closed == nil {
		return nil, nil
	}
	backends := sim.DemoBackends(0, 0)
	for i := range backends {
		backends[i].Mean += overhead
	}
	scenario := sim.Scenario{Name: s.Shape.Name, Setup: sim.Setup{
		Backends: backends, Warm: s.Warm, Measured: time.Duration(closed.Duration),
		Load: sim.Load{Clients: closed.Users, Think: time.Duration(closed.Think), Keys: s.Shape.Clients},
	}}
	rows, err := sim.Compare(ctx, []sim.Scenario{scenario}, sim.Fixed(algorithms), firstSeeds(9))
	if err != nil {
		return nil, err
	}
	all := map[string]*simFigure{}
	for _, r := range rows {
		f := simulatedFigures(r)
		all[f.arm] = &simFigure{f.rps, f.p95}
	}
	return all, nil
}
