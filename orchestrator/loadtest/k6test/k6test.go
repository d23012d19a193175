// Package k6test is a k6 for tests: a shell script that answers as k6 does, and replays a run that was made up for the
// occasion. It puts load on nothing. Kinds are all the ways in which a run can be no evidence.
package k6test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/loadtest"
)

// Kind is a way for a run to go.
type Kind struct {
	Name string
	// Want is part of the reason why the run is no evidence; empty: it is.
	Want string
	// Refused means that no run is made at all: Want is part of the error.
	Refused bool
	// Failing means that every request fails, which of a candidate is evidence.
	Failing bool
	// Costly means that it takes a second of CPU or more, and comes about only where there is a core to be had.
	Costly bool

	inspect string // what k6 inspect does, as shell commands; empty: it finds the scenario
	end     string // what k6 run does after it has written its stream; empty: it ends
	write   func(run) []string
}

// Sound is a run that is evidence.
var Sound = Kind{Name: "a sound run", write: run.all}

// Program writes a k6 that runs the shape this way: each request takes up to slowest milliseconds, and 19 of 20 less.
func (k Kind) Program(t testing.TB, shape loadtest.Shape, slowest float64) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "k6")
	stream := filepath.Join(dir, "stream.ndjson")
	inspect := k.inspect
	if inspect == "" {
		inspect = `echo '{"scenarios":{"main":{"executor":"ramping-arrival-rate"}}}'`
	}
	text := fmt.Sprintf("#!/bin/sh\ncase $1 in\nversion) echo 'k6 v1.8.1 (go1.26.8, linux/amd64)' ;;\ninspect) %s ;;\nrun) cat '%s'\n%s\n;;\nesac\n", inspect, stream, k.end)
	Script(t, path, text)
	require.NoError(t, os.WriteFile(stream, []byte(strings.Join(k.write(run{shape, slowest}), "")), 0o600))
	return path
}

// Script writes a program, to be run at once. A process that was started by another test while the file is open for writing
// would hold it open until it has become its own program, and to run it would fail meanwhile: "text file busy".
func Script(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
}

// run is what a stream tells of.
type run struct {
	shape   loadtest.Shape
	slowest float64 // ms
}

// began is when every run's measured load began.
var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const answered = `"expected_response":"true","name":"app","scenario":"main","status":"200"`

// line is a point of the stream, at an offset from the measured load's start.
func line(metric string, at time.Duration, value, tags string) string {
	return fmt.Sprintf(`{"metric":"%s","type":"Point","data":{"time":"%s","value":%s,"tags":{%s}}}`+"\n", metric, began.Add(at).Format(time.RFC3339Nano), value, tags)
}

// request is a line about a request that was due at an offset and took ms.
func request(due time.Duration, ms float64, tags string) string {
	return line("http_req_duration", due+time.Duration(ms*float64(time.Millisecond)), fmt.Sprintf("%.4f", ms), tags)
}

// all is every planned request, answered, after a warm-up; the n-th of 20 takes n/20 of the slowest.
func (r run) all() []string {
	lines := append(r.warm(), line("rt_event", 0, "1", `"event":"begin"`))
	n := r.shape.Planned()
	for i := range n {
		lines = append(lines, request(r.due(i, n), r.slowest*float64(1+i%20)/20, answered))
	}
	return lines
}

// warm is what is not measured.
func (r run) warm() (lines []string) {
	for i := range 50 {
		at := time.Duration(i-50) * 20 * time.Millisecond
		lines = append(lines, request(at, 1, strings.Replace(answered, "main", "warm", 1)))
	}
	return lines
}

// due is when request i of n is.
func (r run) due(i, n int64) time.Duration {
	return time.Duration(float64(r.shape.Duration()) * float64(i) / float64(n))
}

// measured are the lines from the first measured request on.
const measured = 51
