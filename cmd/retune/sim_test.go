package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/sim"
	"retune/proxy/steering"
)

// Real clients, the real proxy and the demo backends on real sockets do what the simulator says: the reference load,
// a few seconds of it per algorithm, three algorithms at a time. What is held is throughput, which in a closed loop is
// mean latency by another name; percentiles of so few requests are not, and bench prints those beside each other.
// The simulator knows nothing of this machine: what it adds to each request (half a millisecond when idle, many when
// busy) is given to it, as if backends were slower by that.
func TestLiveAndSimulatedThroughputAgree(t *testing.T) {
	algorithms := []balance.Algorithm{
		balance.RoundRobin, balance.LeastConnections, balance.WeightedLeastConnections,
		balance.LeastResponseTime, balance.P2CPeakEWMA, balance.ExpectedCompletion,
	}
	shape, err := loadtest.Load("reference")
	require.NoError(t, err)
	shape.Closed.Duration = loadtest.Duration(2500 * time.Millisecond)
	short := loadtest.Scenario{Shape: shape, Warm: 1500 * time.Millisecond}
	live, overhead := make([]loadtest.Result, len(algorithms)), make([]time.Duration, len(algorithms))
	var g errgroup.Group
	g.SetLimit(3)
	for i, a := range algorithms {
		g.Go(func() (err error) {
			live[i], overhead[i], err = shortReference(t.Context(), a, short)
			return err
		})
	}
	require.NoError(t, g.Wait())
	for i, a := range algorithms {
		simulated, err := simulate(t.Context(), short, overhead[i], []balance.Algorithm{a})
		require.NoError(t, err)
		want := simulated[string(a)]
		t.Logf("%-27s live %5.1f rps, p95 %3.0f ms; simulated %5.1f rps, p95 %3.0f ms; the machine adds %v", a,
			live[i].RPS, live[i].P95MS, want.RPS, want.P95MS, overhead[i].Round(10*time.Microsecond))
		require.InEpsilon(t, want.RPS, live[i].RPS, 0.10, "%s", a)
	}
}

// shortReference is what bench does for one arm, on a bed of its own; and what sockets, proxy and processors added to
// a request, on average: its latency without the time that the backends worked, by the proxy's count of who did.
func shortReference(ctx context.Context, a balance.Algorithm, short loadtest.Scenario) (r loadtest.Result, overhead time.Duration, err error) {
	c := benchCmd{Reference: true, Profile: "quick", logFlags: logFlags{LogFormat: "text"}, exe: program}
	runner, err := loadtest.Choose(ctx, loadtest.Builtin, loadtest.Config{Exe: program})
	if err != nil {
		return r, 0, err
	}
	bed, err := c.bed(ctx, c.logger(io.Discard), io.Discard)
	if err != nil {
		return r, 0, err
	}
	defer bed.stop()
	s := bed.scenarios[0]
	s.Shape, s.Warm = short.Shape, 0
	warm := s
	warm.Shape.Closed = new(*s.Shape.Closed)
	warm.Shape.Closed.Duration = loadtest.Duration(short.Warm)
	if _, err = bed.one(ctx, runner, warm, benchArm{name: string(a), mode: steering.Mode{Mode: steering.Fixed, Algorithm: a}}); err != nil {
		return r, 0, err
	}
	before, err := bed.target.Status(ctx)
	if err != nil {
		return r, 0, err
	}
	if r, err = runner.Run(ctx, s, func(loadtest.Progress) {}); err != nil {
		return r, 0, err
	}
	after, err := bed.target.Status(ctx)
	return r, time.Duration((r.AvgMS/1000 - meanWork(before, after)) * 1e9), err
}

// meanWork is the mean service time, in seconds, of the requests between two looks.
func meanWork(before, after steering.Status) float64 {
	worked, answers := 0.0, 0.0
	for i, b := range sim.DemoBackends(0, 0) {
		n := float64(after.Backends[i].Requests - before.Backends[i].Requests)
		answers += n
		worked += n * b.Mean.Seconds()
	}
	return worked / answers
}

// sim's table is readable in 80 columns, and its JSON has each arm and the limit with the names of bench's.
func TestSim(t *testing.T) {
	var out, stderr bytes.Buffer
	args := []string{"sim", "--seeds", "1", "--scenario", "300 rps", "--algorithm", "round_robin", "--algorithm", "EXPECTED_COMPLETION"}
	require.NoError(t, run(t.Context(), args, &out, &stderr))
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
	}
	require.Contains(t, out.String(), "EXPECTED_COMPLETION")
	require.Contains(t, stderr.String(), "Medians over 1 seeds")

	out.Reset()
	require.NoError(t, run(t.Context(), append(args, "-o", "json"), &out, &stderr))
	var rows []simRow
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 3)
	require.Equal(t, []string{"ROUND_ROBIN", "EXPECTED_COMPLETION", "ORACLE"}, []string{rows[0].Arm, rows[1].Arm, rows[2].Arm})
	require.InDelta(t, 1, rows[0].Ratio, 1e-9)
	require.Greater(t, rows[1].Ratio, 1.1, "three hundred a second are more than equal turns can serve")
	require.InDelta(t, 1, rows[2].P95Limit, 1e-9)
	require.InDelta(t, rows[1].Result.P95MS/rows[2].Result.P95MS, rows[1].P95Limit, 1e-9)
}

// A rule file is an arm of its own, and a wrong one says where it is wrong.
func TestSimTakesRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yml")
	require.NoError(t, os.WriteFile(file, rules.Render(rules.Default()), 0o600))
	var out, stderr bytes.Buffer
	args := []string{"sim", "--seeds", "1", "--scenario", "failure", "--algorithm", "RANDOM", "--rules", file, "-o", "json"}
	require.NoError(t, run(t.Context(), args, &out, &stderr))
	var rows []simRow
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Equal(t, "mine.yml", rows[1].Arm)
	require.Positive(t, rows[1].Switches, "a backend that fails is a state of its own")

	require.NoError(t, os.WriteFile(file, []byte("version: x\n"), 0o600))
	err := run(t.Context(), args, &out, &stderr)
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, stderr.String(), "mine.yml:1:")
}

func TestSimRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, args := range [][]string{{"--scenario", "nope"}, {"--algorithm", "nope"}, {"--seeds", "0"}, {"--seeds", "101"}} {
		var out, stderr bytes.Buffer
		err := run(t.Context(), append([]string{"sim"}, args...), &out, &stderr)
		require.Equal(t, exitUsage, exitCode(err, false), "%v", args)
		require.Contains(t, stderr.String(), args[1])
		require.Empty(t, out.String())
	}
}

// An arm that is no evidence says why, below its table, whatever else is in it.
func TestArmTableNotesWhatIsNoEvidence(t *testing.T) {
	rows := []armFigures{
		{scenario: "a", arm: "ROUND_ROBIN", rps: 100, p95: 50, simulated: &simFigure{101, 49}},
		{scenario: "a", arm: "RANDOM", rps: 50, p95: 100, simulated: &simFigure{99, 51}, invalid: []string{"1 % dropped"}},
	}
	firstRatios(rows)
	require.InDelta(t, 0.5, rows[1].rpsRatio, 1e-9)
	require.InDelta(t, 2, rows[1].p95Ratio, 1e-9)
	lines := strings.Split(armTable(rows), "\n")
	require.Equal(t, []string{"RANDOM", "50.0", "99.0", "0.50", "100", "51", "2.00", "0.00%"}, strings.Fields(lines[3]))
	require.Equal(t, "RANDOM is no evidence: 1 % dropped", lines[4])
}
