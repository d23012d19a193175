//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed config/wrk.lua
var wrkScript string

// run is one contender under load for some seconds.
type run struct {
	Requests int     `json:"requests"`
	RPS      float64 `json:"rps"`
	CPU      float64 `json:"cpu_s_per_100k"` // seconds per 100,000 requests
	Cores    float64 `json:"cores"`          // how many of them the contender kept busy; 1 is all that one thread has
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Late     float64 `json:"late_p99_us,omitempty"` // of an open load: how late the probe itself was
	Errors   int     `json:"errors"`                // answers of 400 and above, broken connections, time-outs
	Backends float64 `json:"backends_cpu_s_per_100k"`
	Foreign  float64 `json:"foreign"` // share of a core that others took
}

// attempts is how often a run is made before a noisy one is taken.
const attempts = 2

// measure runs a contender once; again if others disturbed it and there is patience to wait for them.
func (st *stand) measure(ctx context.Context, c *contender, seconds int) (r run, err error) {
	for range attempts {
		if err := awaitQuiet(ctx, st.wait); err != nil {
			return r, err
		}
		if r, err = st.once(ctx, c, seconds); err != nil || r.Foreign <= noisy || st.wait == 0 {
			break
		}
	}
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", st.name, c.name, err)
	}
	return r, nil
}

func (st *stand) once(ctx context.Context, c *contender, seconds int) (r run, err error) {
	load := st.wrk
	if st.kind == openLoad {
		load = st.probe
	}
	first, err := readClocks(c.pid(), st.backends.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	r, driver, err := load(ctx, c, seconds)
	if err != nil {
		return r, err
	}
	last, err := readClocks(c.pid(), st.backends.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	if r.Requests == 0 {
		return r, fmt.Errorf("no request was answered")
	}
	u := last.since(first)
	r.CPU = u.contender.Seconds() * 1e5 / float64(r.Requests)
	r.Backends = u.backends.Seconds() * 1e5 / float64(r.Requests)
	r.Cores = u.contender.Seconds() / u.elapsed.Seconds()
	r.Foreign = u.foreign(driver)
	return r, nil
}

// wrk loads a contender as fast as it answers; it also says what CPU time that took.
func (st *stand) wrk(ctx context.Context, c *contender, seconds int) (run, time.Duration, error) {
	script := filepath.Join(st.dir, "wrk.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o644); err != nil {
		return run{}, 0, err
	}
	argv := []string{st.options.wrk, "-t1", "-c" + strconv.Itoa(st.connections), fmt.Sprintf("-d%ds", seconds), "--latency", "-s", script}
	for _, h := range headers {
		argv = append(argv, "-H", h)
	}
	argv = append(argv, "http://"+c.address+st.path)
	if st.post {
		argv = append(argv, "--", "post")
	}
	_, core := st.cores()
	out, driver, err := output(ctx, core, nil, argv...)
	if err != nil {
		return run{}, 0, err
	}
	r, err := parseWrk(out)
	return r, driver, err
}

// parseWrk reads what wrk.lua prints after wrk's own lines. wrk counts answers below 400 as good; whether they are 200
// was checked before.
func parseWrk(out []byte) (r run, err error) {
	var w struct {
		Requests int     `json:"requests"`
		Duration float64 `json:"duration_us"`
		P50      float64 `json:"p50_us"`
		P99      float64 `json:"p99_us"`
		Connect  int     `json:"connect"`
		Read     int     `json:"read"`
		Write    int     `json:"write"`
		Timeout  int     `json:"timeout"`
		Status   int     `json:"status"`
	}
	line := lastLine(out)
	if err := json.Unmarshal(line, &w); err != nil || w.Duration <= 0 {
		return r, fmt.Errorf("wrk's last line is %q, not its figures (%w)", line, err)
	}
	return run{
		Requests: w.Requests, RPS: float64(w.Requests) * 1e6 / w.Duration, P50: w.P50, P99: w.P99,
		Errors: w.Connect + w.Read + w.Write + w.Timeout + w.Status,
	}, nil
}

// probe loads a contender at the scenario's rate.
func (st *stand) probe(ctx context.Context, c *contender, seconds int) (r run, driver time.Duration, err error) {
	_, core := st.cores()
	out, driver, err := output(ctx, core, lean, st.self, "probe", c.address, strconv.Itoa(st.rate), strconv.Itoa(seconds))
	if err != nil {
		return r, 0, err
	}
	var p probeResult
	if err := json.Unmarshal(out, &p); err != nil {
		return r, 0, fmt.Errorf("the probe printed %q: %w", out, err)
	}
	return run{
		Requests: p.Requests - p.Errors, RPS: float64(p.Requests-p.Errors) / float64(seconds),
		P50: p.P50, P99: p.P99, Late: p.LateP99, Errors: p.Errors,
	}, driver, nil
}

// lastLine is what follows the last line break but the one at the end.
func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}
