//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test's own program be the backends and the probe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "backends" || os.Args[1] == "probe") {
		if err := dispatch(os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestWrksFiguresAreReadFromItsLastLine(t *testing.T) {
	r, err := parseWrk([]byte("Running 1s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\nRequests/sec:  1.00\n" +
		`{"requests":3000,"duration_us":1500000,"p50_us":1340,"p99_us":2720,"connect":1,"read":2,"write":3,"timeout":4,"status":5}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, run{Requests: 3000, RPS: 2000, P50: 1340, P99: 2720, Errors: 15}, r)

	_, err = parseWrk([]byte("unable to connect to 127.0.0.1:1 Connection refused\n"))
	require.ErrorContains(t, err, "unable to connect")
}

func TestBusyTimeLeavesOutIdleAndWaiting(t *testing.T) {
	d, err := busyOf("cpu  100 1 200 99999 88888 2 3 4 50 60\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	require.NoError(t, err)
	require.Equal(t, 3100*time.Millisecond, d, "user, nice, system, irq, softirq and steal; guests are in user")
	_, err = busyOf("intr 1 2 3 4 5 6 7 8 9\n")
	require.Error(t, err)
}

func TestForeignIsWhatNobodyOfUsTook(t *testing.T) {
	u := usage{elapsed: 2 * time.Second, contender: 1900 * time.Millisecond, backends: 500 * time.Millisecond, machine: 4 * time.Second}
	require.InDelta(t, 0.3, u.foreign(time.Second), 1e-9)
	require.Zero(t, u.foreign(3*time.Second), "ticks of 10 ms may add up to less than nothing")
}

func TestMemoryIsReadInKiB(t *testing.T) {
	n, err := fieldKiB("Rss:  99 kB\nPss:                1234 kB\nPss_Dirty: 5 kB\n", "Pss:")
	require.NoError(t, err)
	require.Equal(t, int64(1234), n)
	_, err = fieldKiB("Rss: 1 kB\n", "Pss:")
	require.Error(t, err)
}

func TestSpread(t *testing.T) {
	require.Equal(t, spread{2, 1, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, spread{2.5, 1, 9}, spreadOf([]float64{9, 1, 2, 3}))
	require.Equal(t, spread{}, spreadOf(nil))
}

// drifting is two rounds on a machine that is twice as slow in the second.
func drifting() samples {
	one := func(cpu, rps, p50 float64) run { return run{CPU: cpu, RPS: rps, P50: p50} }
	slow, fast := one(4, 25e3, 200), one(2, 50e3, 100)
	return samples{nginx: []run{fast, fast, slow}, of: map[string][]sample{
		retune:  {{one(1.6, 60e3, 90), fast}, {one(3.2, 30e3, 180), slow}},
		haproxy: {{one(1.8, 55e3, 95), fast}, {one(4.4, 20e3, 250), slow}},
		direct:  {{one(0, 90e3, 50), fast}, {one(0, 80e3, 70), slow}},
	}}
}

func TestRatiosAreTakenWithinRounds(t *testing.T) {
	s := drifting()
	near := func(want spread, got spread) {
		t.Helper()
		require.InDeltaSlice(t, []float64{want.Median, want.Min, want.Max}, []float64{got.Median, got.Min, got.Max}, 1e-9)
	}
	near(spread{0.8, 0.8, 0.8}, s.ratio(retune, nginx, cpu))
	near(spread{1.2, 1.2, 1.2}, s.ratio(retune, nginx, rps))
	near(spread{1, 0.9, 1.1}, s.ratio(haproxy, nginx, cpu))
	near(spread{(0.8/0.9 + 0.8/1.1) / 2, 0.8 / 1.1, 0.8 / 0.9}, s.ratio(retune, haproxy, cpu))
	near(spread{1, 1, 1}, s.ratio(nginx, nginx, cpu))
	near(spread{(1/0.9 + 1/1.1) / 2, 1 / 1.1, 1 / 0.9}, s.ratio(nginx, haproxy, cpu))
	near(spread{75, 40, 110}, s.added(retune, p50))
	near(spread{90, 50, 130}, s.added(nginx, p50))
}

func TestAGoalIsMetOrMissed(t *testing.T) {
	o := outcome{samples: drifting()}
	o.goals = append(cpuAtMost(0.85, nginx, haproxy), rpsAtLeast(1.25, nginx)...)
	o.goals = append(o.goals, addedAtMost("p50", p50, 10, nginx)...)
	require.Equal(t, []string{
		"CPU ≤ 0.85 × nginx: 0.80, met", "CPU ≤ 0.85 × haproxy: 0.81, met", "RPS ≥ 1.25 × nginx: 1.20, MISSED",
		"added p50 ≤ nginx's + 10 µs: -15 µs, met", "errors = 0: 0, met",
	}, strings.Split(lines(o.judge()), "\n"))

	o.of[retune][1].run.Errors = 3
	require.Contains(t, lines(o.judge()), "errors = 0: 3, MISSED")

	o = outcome{memory: map[string]held{retune: {EachFewer: 900, EachAll: 1100, Held: 9999}}}
	o.kind, o.goals = idleMemory, []goal{bytesAtMost(1024), heldAtLeast(10_000)}
	require.Equal(t, "bytes per idle connection ≤ 1024: 1100, MISSED\nidle connections held ≥ 10000: 9999, MISSED", lines(o.judge()))
}

func TestATableSaysWhatItIsWorth(t *testing.T) {
	st := &stand{scenario: scenarios[0], options: options{rounds: 2, seconds: 3}}
	for _, name := range []string{nginx, retune, haproxy} {
		st.contenders = append(st.contenders, &contender{name: name})
	}
	o := outcome{scenario: scenarios[0], samples: drifting()}
	o.nginx[1].Foreign = 0.25
	var b bytes.Buffer
	o.report(st).print(&b)
	for _, want := range []string{"0.80 (0.80–0.80)", "CPU ≤ 0.85 × nginx: 0.80, met", "25 % of a core beside nginx", "2 rounds of 3 s are a look"} {
		require.Contains(t, b.String(), want)
	}
}

func TestEveryContenderHasEveryPlace(t *testing.T) {
	require.Equal(t, []int{1, 2, 3}, rotated([]int{1, 2, 3}, 0))
	require.Equal(t, []int{3, 1, 2}, rotated([]int{1, 2, 3}, 5))
}

// A direct contender is a backend, so this is backends, check, probe and idle connections without anything between.
func TestBackendsAndProbeTalkToEachOther(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	st := &stand{options: options{self: self}, scenario: scenario{kind: openLoad, threads: 2, rate: 500, connections: fewer}}
	defer func() { st.close() }()
	require.NoError(t, st.startBackends(t.Context()))
	c := &contender{name: direct, address: st.addresses[3]}
	require.NoError(t, c.ready(t.Context()))

	r, err := st.once(t.Context(), c, 1)
	require.NoError(t, err)
	require.Equal(t, 500, r.Requests)
	require.Zero(t, r.Errors)
	require.Positive(t, r.P50)
	require.GreaterOrEqual(t, r.P99, r.P50)
	require.Positive(t, r.Backends)
	require.Zero(t, r.CPU, "there is no contender to take any")
}

func TestABackendReadsRequestsInAnyPieces(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	st := &stand{options: options{self: self}, scenario: scenario{threads: 2}}
	defer func() { st.close() }()
	require.NoError(t, st.startBackends(t.Context()))
	k, err := dialKept(t.Context(), st.addresses[0])
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, k.SetDeadline(time.Now().Add(10*time.Second)))
	answers := bufio.NewReader(k)

	all := "POST /a HTTP/1.1\r\nCONTENT-LENGTH: 5\r\n\r\n12345GET /64k HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n"
	for cut := range len(all) {
		_, err := io.WriteString(k, all[:cut])
		require.NoError(t, err)
		_, err = io.WriteString(k, all[cut:])
		require.NoError(t, err)
		for _, want := range []int{smallBody, largeBody, smallBody} {
			a, err := http.ReadResponse(answers, nil)
			require.NoError(t, err, "cut at %d", cut)
			n, err := io.Copy(io.Discard, a.Body)
			require.NoError(t, err)
			require.Equal(t, int64(want), n, "cut at %d", cut)
		}
	}
}

func TestAProbeOfNobodyFails(t *testing.T) {
	address, err := freeAddresses(1)
	require.NoError(t, err)
	require.ErrorContains(t, runProbe(address[0], 10, time.Second, io.Discard), "connecting to "+address[0])
}

func TestAnAnswerInPieces(t *testing.T) {
	whole := "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"
	for cut := range len(whole) {
		c := &probed{body: -1}
		done, ok := c.take([]byte(whole[:cut]))
		require.True(t, ok)
		require.False(t, done, "after %d bytes", cut)
		done, ok = c.take([]byte(whole[cut:]))
		require.True(t, ok && done, "cut at %d", cut)
	}
	for name, bad := range map[string]string{
		"another status": "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", "more than was announced": whole + "d",
	} {
		_, ok := (&probed{body: -1}).take([]byte(bad))
		require.False(t, ok, name)
	}
}
