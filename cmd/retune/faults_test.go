package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
)

// steadyAnswers is n answers, one each 50 ms from start on, every fourth by the victim if it serves, each after 10 ms.
func steadyAnswers(start time.Time, n int, serves bool) (all []faultAnswer) {
	for i := range n {
		a := faultAnswer{due: start.Add(time.Duration(i) * 50 * time.Millisecond), ok: true, post: i%5 == 0, backend: "server-1"}
		if i%4 == 0 && serves {
			a.backend = victimName
		}
		a.begun, a.end = a.due, a.due.Add(10*time.Millisecond)
		all = append(all, a)
	}
	return all
}

func TestFaultFigures(t *testing.T) {
	start := time.Unix(1000, 0)
	began, ended := start.Add(4*time.Second), start.Add(8*time.Second)
	all := steadyAnswers(start, 80, true)
	fault := steadyAnswers(began, 80, false)
	fault[1].ok, fault[1].end = false, fault[1].due.Add(2*time.Second)
	fault[5].ok, fault[5].end = false, fault[5].due.Add(10*time.Second)
	fault[6].end = fault[6].due.Add(3 * time.Second)
	fault[7].begun = fault[7].due.Add(200 * time.Millisecond)
	all = append(all, fault...)
	all = append(all, steadyAnswers(ended, 60, false)...) // three seconds until it is back
	all = append(all, steadyAnswers(ended.Add(3*time.Second), 100, true)...)
	r := figures(all, began, ended)
	require.Equal(t, 80, r.Requests)
	require.Equal(t, 1, r.Late)
	require.Equal(t, 2, r.Failed)
	require.Equal(t, 1, r.Posts)
	require.InDelta(t, 0.025, r.Share, 1e-9)
	require.Equal(t, 1, r.Delayed)
	require.InDelta(t, 10_000, r.WorstMS, 1e-6)
	require.InDelta(t, 10.25, r.LastSeenS, 1e-6)
	require.InDelta(t, 2.6, r.BackS, 0.15, "four fifths of a stretch of two seconds")

	r = figures(append(steadyAnswers(start, 160, true), steadyAnswers(ended, 200, false)...), began, ended)
	require.Zero(t, r.LastSeenS)
	require.InDelta(t, -1, r.BackS, 0, "it never came back")
	require.Equal(t, faultRow{BackS: -1}, figures(nil, began, ended))
}

// Every fault is made and mended on real processes, and seen by the clients as what it is.
func TestTheFaultBenchInShort(t *testing.T) {
	bed, err := newFaultBed(t.Context(), program, []balance.Algorithm{balance.RoundRobin}, logFlags{LogFormat: "text"}, io.Discard)
	require.NoError(t, err)
	defer bed.stop()
	for _, f := range faults() {
		rows, err := bed.measure(t.Context(), f, faultTimes{calm: 300 * time.Millisecond, hold: 400 * time.Millisecond, after: time.Millisecond})
		require.NoError(t, err, f.name)
		require.Len(t, rows, 1)
		r := rows[0]
		require.Equal(t, f.name, r.Fault)
		require.Equal(t, "ROUND_ROBIN", r.Algorithm)
		require.Greater(t, r.Requests, 10, f.name)
		require.Less(t, r.Failed, r.Requests, f.name)
		require.Positive(t, r.WorstMS, f.name)
		if f.name == "500 in 1 ms" {
			require.Positive(t, r.Failed, "an answer is an answer: it is never replaced")
		}
	}
}
