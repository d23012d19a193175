package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/target"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/ruleversions"
)

type benchCmd struct {
	Reference bool     `help:"The reference load of the published table: 100 closed clients with 100 ms think time, fixed service times, no queue."`
	Faults    bool     `help:"Lose a backend in five ways and get it back, under every algorithm at once: what clients see of it. Takes four minutes."`
	Profile   string   `help:"How long and how hard: ${enum}." enum:"quick,standard,nightly" default:"quick"`
	Scenario  []string `help:"Only these scenarios. Repeatable."`
	Algorithm []string `help:"Only these algorithms. Repeatable."`
	Rules     []string `help:"Rule files that run beside the fixed algorithms. Repeatable." type:"existingfile" placeholder:"FILE"`
	Driver    string   `help:"What produces the load: ${enum}." enum:"auto,k6,builtin" default:"auto"`
	K6        string   `name:"k6" help:"The k6 program." env:"RETUNE_K6" placeholder:"FILE"`
	tableFlags
	logFlags

	exe string // the program that is started for each role, our own when empty
}

// benchRow is one arm in one scenario.
type benchRow struct {
	Scenario string          `json:"scenario"`
	Arm      string          `json:"arm"`
	Ratio    float64         `json:"rps_to_round_robin"` // 0: ROUND_ROBIN was not measured
	P95Ratio float64         `json:"p95_to_round_robin"`
	Result   loadtest.Result `json:"result"`

	Simulated *simFigure `json:"simulated,omitempty"` // the reference load only
}

// benchArm is a fixed algorithm or a rule file.
type benchArm struct {
	name    string
	mode    steering.Mode
	version ruleversions.Version // zero: as it is
}

// Run measures fixed algorithms and rule files, one after the other, on demo backends and a proxy of its own.
func (c *benchCmd) Run(ctx context.Context, o *output) error {
	if c.Faults {
		return c.faults(ctx, o)
	}
	arms, err := c.arms()
	if err != nil {
		return err
	}
	runner, err := loadtest.Choose(ctx, loadtest.Driver(c.Driver), loadtest.Config{K6: c.K6})
	if err != nil {
		return unavailable(err)
	}
	if c.LogLevel == slog.LevelInfo {
		c.LogLevel = slog.LevelWarn
	}
	fmt.Fprintln(o.err, runner.Why)
	bed, err := c.bed(ctx, c.logger(o.err), o.err)
	if err != nil {
		return err
	}
	defer bed.stop()
	rows, err := bed.measure(ctx, o, runner, arms)
	if err != nil {
		return err
	}
	return c.show(o, rows)
}

func (c *benchCmd) arms() (all []benchArm, err error) {
	fixed, err := pickAlgorithms(c.Algorithm)
	if err != nil {
		return nil, err
	}
	for _, a := range fixed {
		all = append(all, benchArm{name: string(a), mode: steering.Mode{Mode: steering.Fixed, Algorithm: a}})
	}
	for _, file := range c.Rules {
		rs, b, err := parseRuleFile(file)
		if err != nil {
			return nil, err
		}
		v := ruleversions.Version{Number: rs.Version, YAML: string(b), Hash: rules.Sum(b), Rules: rs}
		all = append(all, benchArm{name: filepath.Base(file), mode: steering.Mode{Mode: steering.Adaptive}, version: v})
	}
	return all, nil
}

// testBed is demo backends and a proxy on free ports.
type testBed struct {
	scenarios []loadtest.Scenario
	plan      orchestrator.Plan
	target    *target.ALB
	stop      func()
}

func (c *benchCmd) bed(ctx context.Context, log *slog.Logger, stderr io.Writer) (*testBed, error) {
	plan, err := orchestrator.PlanFor(loadtest.Profile(c.Profile))
	if err != nil {
		return nil, usage("%w", err)
	}
	addrs, err := freeAddrs(6)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "retune-bench-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var kept sync.WaitGroup
	bed := &testBed{plan: plan, stop: func() { cancel(); kept.Wait(); os.RemoveAll(dir) }}
	back, listen, admin := addrs[:4], addrs[4], addrs[5]
	for _, p := range c.processes(dir, back, listen, admin) {
		p.exe = c.exe
		kept.Go(func() { p.keep(ctx, log, stderr) })
		if err := p.ready(ctx); err != nil {
			bed.stop()
			return nil, err
		}
	}
	if bed.target, err = target.New([]string{"http://" + admin}, ""); err == nil {
		bed.scenarios, err = c.scenarios("http://"+listen, back, plan)
	}
	if err != nil {
		bed.stop()
		return nil, err
	}
	return bed, nil
}

func (c *benchCmd) processes(dir string, back []string, listen, admin string) []*child {
	var more []string
	if c.Reference {
		more = []string{"--sigma", "0", "--concurrency", "0"}
	}
	return []*child{demoChild(back, more...), proxyChild(listen, admin, filepath.Join(dir, "decision-rules.yml"), c.logFlags, demoFlags(back))}
}

func (c *benchCmd) scenarios(url string, back []string, plan orchestrator.Plan) (all []loadtest.Scenario, err error) {
	var names []string
	for _, s := range loadtest.Shapes() {
		closed := s.Closed != nil
		if closed == c.Reference {
			names = append(names, s.Name)
		}
		if closed != c.Reference || (s.HoldOut && len(c.Scenario) == 0) || (len(c.Scenario) > 0 && !slices.Contains(c.Scenario, s.Name)) {
			continue
		}
		p := loadtest.Profile(c.Profile)
		all = append(all, loadtest.Scenario{Shape: s.Scaled(p), Profile: p, Target: url, Controls: demoControls(back), Warm: plan.Warm, Seed: 1})
	}
	for _, n := range c.Scenario {
		if !slices.Contains(names, n) {
			return nil, usage("no scenario %q; there are %s", n, strings.Join(names, ", "))
		}
	}
	return all, nil
}

// measure runs every arm in every scenario.
func (b *testBed) measure(ctx context.Context, o *output, runner *loadtest.Runner, arms []benchArm) (rows []benchRow, err error) {
	for _, s := range b.scenarios {
		simulated, err := simulate(ctx, s, 0, balance.Algorithms())
		if err != nil {
			return nil, err
		}
		for i, a := range arms {
			fmt.Fprintf(o.err, "%s under %s (%d of %d)\n", s.Shape.Name, a.name, i+1, len(arms))
			r, err := b.one(ctx, runner, s, a)
			if err != nil {
				return nil, fmt.Errorf("%s under %s: %w", s.Shape.Name, a.name, err)
			}
			rows = append(rows, benchRow{Scenario: s.Shape.Name, Arm: a.name, Result: r, Simulated: simulated[a.name]})
		}
	}
	return rows, nil
}

func (b *testBed) one(ctx context.Context, runner *loadtest.Runner, s loadtest.Scenario, a benchArm) (loadtest.Result, error) {
	if a.version.Hash != "" {
		if err := b.target.Apply(ctx, a.version, 0, true); err != nil {
			return loadtest.Result{}, err
		}
	}
	a.mode.Reset, a.mode.TimeScale = true, b.plan.TimeScale
	if err := b.target.SetMode(ctx, a.mode); err != nil {
		return loadtest.Result{}, err
	}
	return runner.Run(ctx, s, func(loadtest.Progress) {})
}

func (c *benchCmd) show(o *output, rows []benchRow) error {
	figures := make([]armFigures, len(rows))
	for i, r := range rows {
		m := r.Result
		figures[i] = armFigures{scenario: r.Scenario, arm: r.Arm, rps: m.RPS, avg: m.AvgMS, p50: m.P50MS, p95: m.P95MS, p99: m.P99MS,
			errors: m.ErrorRate, simulated: r.Simulated, invalid: m.Invalid}
	}
	firstRatios(figures)
	for i, f := range figures {
		rows[i].Ratio, rows[i].P95Ratio = f.rpsRatio, f.p95Ratio
	}
	return c.printArms(o, rows, figures, nil)
}

// freeAddrs is n loopback addresses that nobody listens on.
func freeAddrs(n int) (all []string, err error) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		all = append(all, ln.Addr().String())
	}
	return all, nil
}
