package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

// recorder has a running `retune up` calibrate itself, which makes interleaved pairs of equal arms, and writes down the runs.
type recorder struct {
	server    string // base URL of its web server
	scenarios []string
	profile   string
	driver    string
	commit    string
	out       io.Writer
	busy      busyLog
	began     time.Time // the first recorded run
}

// record makes so many calibrations, one after the other, and writes each as soon as it is done. One that fails is told
// to stderr; the runs that it made before count.
func (r *recorder) record(ctx context.Context, calibrations int, stderr io.Writer) error {
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	go r.busy.keep(measuring)
	if err := r.head(); err != nil {
		return err
	}
	for n := range calibrations {
		runs, err := r.calibrate(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			fmt.Fprintf(stderr, "calibration %d: %v\n", n+1, err)
		}
		for _, run := range runs {
			if _, err := fmt.Fprintln(r.out, r.line(n+1, run)); err != nil {
				return err
			}
		}
	}
	if r.began.IsZero() {
		return errors.New("no calibration gave a run")
	}
	return nil
}

// columns of a recording.
const columns = "calibration,pair,scenario,arm,at_s,planned,requests,rps,p95_ms,error_rate,driver_cpu,machine_busy"

// head says in comments what the figures are and where they come from.
func (r *recorder) head() error {
	_, err := fmt.Fprintf(r.out, `# Runs of equal arms: calibrations of "retune up" on its demo backends, profile %[1]s, driver %[2]s.
# Recorded %[3]s on %[4]d cores (%[5]s), commit %[6]s, by:
#   retune up --data DIR --scenario-dir bench/judge/testdata/scenarios --no-calibrate
#   judge record -profile %[1]s -scenarios %[7]s
# Both arms of a pair are the same rules. at_s is the start of the measured phase, in seconds since the first run's;
# driver_cpu the load generator's share of a core; machine_busy the share of all cores that was in use, by whomever.
%[8]s
`, r.profile, r.driver, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor(), r.commit, strings.Join(r.scenarios, ","), columns)
	return err
}

func (r *recorder) line(calibration int, run orchestrator.Run) string {
	m := run.Result
	if r.began.IsZero() {
		r.began = m.Started
	}
	at := m.Started.Sub(r.began).Seconds()
	return fmt.Sprintf("%d,%d,%s,%s,%.1f,%d,%d,%.3f,%.3f,%.6f,%.3f,%.2f", calibration, run.Pair, run.Scenario, run.Arm, at,
		m.Planned, m.Requests, m.RPS, m.P95MS, m.ErrorRate, m.DriverCPU, r.busy.share(m.Started, m.Duration))
}

// calibrate has the server calibrate once, and returns the valid runs in the order in which they were made.
func (r *recorder) calibrate(ctx context.Context) ([]orchestrator.Run, error) {
	var c orchestrator.Cycle
	ask := orchestrator.Request{Kind: orchestrator.Calibrate, Profile: loadtest.Profile(r.profile), Driver: loadtest.Driver(r.driver), Scenarios: r.scenarios}
	if err := r.call(ctx, http.MethodPost, "/cycles", ask, &c); err != nil {
		return nil, err
	}
	path := "/cycles/" + strconv.FormatInt(c.ID, 10)
	for !c.Status.Ended() {
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), r.call(context.WithoutCancel(ctx), http.MethodPost, path+"/cancel", nil, nil))
		case <-time.After(time.Second):
		}
		if err := r.call(ctx, http.MethodGet, path, nil, &c); err != nil {
			return nil, err
		}
	}
	var found struct {
		Items []orchestrator.Run `json:"items"`
	}
	if err := r.call(ctx, http.MethodGet, path+"/runs", nil, &found); err != nil {
		return nil, err
	}
	if c.Status != orchestrator.Finished {
		return validRuns(found.Items), fmt.Errorf("cycle %d: %s: %s", c.ID, c.Status, c.Why)
	}
	return validRuns(found.Items), nil
}

func validRuns(runs []orchestrator.Run) (valid []orchestrator.Run) {
	for _, run := range runs {
		if len(run.Result.Invalid) == 0 {
			valid = append(valid, run)
		}
	}
	slices.SortFunc(valid, func(a, b orchestrator.Run) int { return a.Result.Started.Compare(b.Result.Started) })
	return valid
}

// call asks the API; answer is filled from a good answer, when it is not nil.
func (r *recorder) call(ctx context.Context, method, path string, ask, answer any) error {
	var body io.Reader
	if ask != nil {
		b, err := json.Marshal(ask)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.server, "/")+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("is `retune up` running? %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, said)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// processor is the machine's kind, as Linux tells it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value) + ", " + runtime.GOOS
		}
	}
	return runtime.GOARCH + ", " + runtime.GOOS
}
