package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/demo"
	"retune/proxy/sim"
	"retune/proxy/steering"
)

// Real clients, the real proxy and the demo backends on real sockets do what the simulator says: the reference load,
// a few seconds of it per algorithm, two algorithms at a time. What is held is throughput, which in a closed loop is
// mean latency by another name; percentiles of so few requests are not, and bench prints those beside each other.
// The simulator knows nothing of this machine: what it adds to each request (half a millisecond when idle, many when
// busy) is measured meanwhile, and given to it.
func TestLiveAndSimulatedThroughputAgree(t *testing.T) {
	algorithms := []balance.Algorithm{
		balance.RoundRobin, balance.LeastConnections, balance.WeightedLeastConnections,
		balance.LeastResponseTime, balance.P2CPeakEWMA, balance.ExpectedCompletion,
	}
	shape, err := loadtest.Load("reference")
	require.NoError(t, err)
	shape.Closed.Duration = loadtest.Duration(2500 * time.Millisecond)
	live, overhead := make([]loadtest.Result, len(algorithms)), make([]time.Duration, len(algorithms))
	var g errgroup.Group
	g.SetLimit(2)
	for i, a := range algorithms {
		g.Go(func() (err error) {
			live[i], overhead[i], err = shortReference(t, a, shape)
			return err
		})
	}
	require.NoError(t, g.Wait())
	for i, a := range algorithms {
		slowed := shape
		slowed.Closed = new(*shape.Closed)
		slowed.Closed.Think += loadtest.Duration(overhead[i])
		simulated, err := simulate(t.Context(), slowed, sim.DemoBackends(0, 0), []balance.Algorithm{a})
		require.NoError(t, err)
		want := simulated[string(a)]
		t.Logf("%-27s live %5.1f rps, p95 %3.0f ms; simulated %5.1f rps, p95 %3.0f ms; the machine adds %v", a,
			live[i].RPS, live[i].P95MS, want.RPS, want.P95MS, overhead[i].Round(10*time.Microsecond))
		require.InEpsilon(t, want.RPS, live[i].RPS, 0.10, "%s", a)
	}
}

// shortReference is what bench does for one arm, on a bed of its own; and the mean of what sockets, proxy and
// processors added to the time that backends worked.
func shortReference(t *testing.T, a balance.Algorithm, shape loadtest.Shape) (r loadtest.Result, overhead time.Duration, err error) {
	c := benchCmd{Reference: true, Profile: "quick", logFlags: logFlags{LogFormat: "text"}, exe: program}
	runner, err := loadtest.Choose(t.Context(), loadtest.Builtin, loadtest.Config{Exe: program})
	if err != nil {
		return r, 0, err
	}
	bed, err := c.bed(t.Context(), c.logger(io.Discard), io.Discard)
	if err != nil {
		return r, 0, err
	}
	defer bed.stop()
	s := bed.scenarios[0]
	s.Shape, s.Warm = shape, 1200*time.Millisecond
	over := make(chan struct{})
	var g errgroup.Group
	g.Go(func() (err error) {
		overhead, err = meanOverhead(t.Context(), s.Target, over)
		return err
	})
	r, err = bed.one(t.Context(), runner, s, benchArm{name: string(a), mode: steering.Mode{Mode: steering.Fixed, Algorithm: a}})
	close(over)
	return r, overhead, errors.Join(err, g.Wait())
}

// meanOverhead makes one request after the other until over is closed: how much longer each took than the backend
// says that it worked on it.
func meanOverhead(ctx context.Context, url string, over <-chan struct{}) (time.Duration, error) {
	sum, n := time.Duration(0), time.Duration(0)
	for {
		select {
		case <-over:
			return sum / max(n, 1), nil
		default:
		}
		began := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		took := time.Since(began)
		res.Body.Close()
		worked, malformed := strconv.ParseFloat(res.Header.Get(demo.HeaderServiceTime), 64)
		if err = errors.Join(err, malformed); err != nil {
			return 0, err
		}
		sum, n = sum+took-time.Duration(worked*1e6), n+1
	}
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
	require.Contains(t, stderr.String(), "Medians of 1 seeds")

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
