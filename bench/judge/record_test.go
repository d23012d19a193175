package main

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

func TestWhatIsRecordedCanBeRead(t *testing.T) {
	var out bytes.Buffer
	r := recorder{profile: "quick", driver: "builtin", commit: "abc", scenarios: judged, out: &out}
	require.NoError(t, r.head())
	began := time.Now()
	want := verdict.Measurement{Requests: 640, RPS: 80, P95MS: 512.5, ErrorRate: 0.003125}
	n := 0
	for c := range 3 {
		for pair := range 3 {
			for _, s := range append([]string{"steady-slow13"}, judged...) {
				for _, arm := range []orchestrator.Arm{orchestrator.ArmCandidate, orchestrator.ArmChampion} {
					run := orchestrator.Run{Scenario: s, Arm: arm, Pair: pair + 1, Result: loadtest.Result{
						Started: began.Add(time.Duration(n) * 10 * time.Second), Duration: 8 * time.Second, Planned: 640,
						Requests: want.Requests, RPS: want.RPS, P95MS: want.P95MS, ErrorRate: want.ErrorRate}}
					fmt.Fprintln(&out, r.line(c+1, run))
					n++
				}
			}
		}
	}
	got, err := readRecording(loadtest.Quick, out.String())
	require.NoError(t, err)
	require.Equal(t, n, got.runs)
	require.Len(t, got.pairs, len(judged))
	for i, pairs := range got.pairs {
		require.Len(t, pairs, 9)
		for _, p := range pairs {
			require.Equal(t, verdict.Pair{Scenario: judged[i], Champion: want, Candidate: want}, p)
		}
	}
	require.Len(t, got.slowed[0].pairs, 18)
	require.Contains(t, out.String(), "profile quick, driver builtin.\n# Recorded 20")
	require.Contains(t, out.String(), "commit abc")
	require.Contains(t, out.String(), "judge record -profile quick -scenarios steady,burst,gradual,failure\n")
	require.Contains(t, out.String(), "1,1,steady-slow13,champion,10.0,640,640,80.000,512.500,0.003125,0.000,NaN\n")
}

func TestInvalidRunsAreNotRecordedAndTheOthersInTurn(t *testing.T) {
	now := time.Now()
	run := func(id int64, after time.Duration, invalid ...string) orchestrator.Run {
		return orchestrator.Run{ID: id, Result: loadtest.Result{Started: now.Add(after), Invalid: invalid}}
	}
	got := validRuns([]orchestrator.Run{run(1, 3), run(2, 1), run(3, 2, "too few requests")})
	require.Len(t, got, 2)
	require.EqualValues(t, 2, got[0].ID)
	require.EqualValues(t, 1, got[1].ID)
}

func TestRecordingWithoutAServerSaysWhatIsMissing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	var out, stderr bytes.Buffer
	err = dispatch(t.Context(), []string{"record", "-server", "http://" + ln.Addr().String(), "-calibrations", "1"}, &out, &stderr)
	require.EqualError(t, err, "no calibration gave a run")
	require.Contains(t, stderr.String(), "is `retune up` running?")
}

func TestBusyIsWhatTheCoresDidBesideWaiting(t *testing.T) {
	at := time.Now()
	var l busyLog
	for i, line := range []string{"cpu  0 0 0 100 0 0 0 0 0 0\n", "cpu  30 10 20 120 20 0 0 0 0 0\n", "cpu  30 10 20 220 20 0 0 0 0 0\ncpu0 1\n"} {
		s, ok := parseStat(line)
		require.True(t, ok)
		s.at = at.Add(time.Duration(i) * time.Second)
		l.samples = append(l.samples, s)
	}
	require.InDelta(t, 0.6, l.share(at, time.Second/2), 1e-9)
	require.InDelta(t, 0, l.share(at.Add(time.Second), time.Second/2), 1e-9)
	require.InDelta(t, 0.3, l.share(at, 2*time.Second), 1e-9)
	for _, line := range []string{"", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a 0 0 0 0 0 0 0 0\n"} {
		_, ok := parseStat(line)
		require.False(t, ok)
	}
	require.True(t, math.IsNaN(l.share(at.Add(time.Hour), time.Second)), "nobody looked")
}
