package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARecordedRunIsEvidence(t *testing.T) {
	for _, mode := range []string{"exit:0", "exit:99"} {
		r, err := standInRunner(t, mode).Run(t.Context(), scenarioFor(fixtureShape()), nil)
		require.NoError(t, err)
		require.Empty(t, r.Invalid, mode)
		require.EqualValues(t, 130, r.Requests)
		require.Equal(t, K6, r.Driver)
		require.Equal(t, "v1.8.1", r.DriverVersion)
		require.NotEmpty(t, r.Histogram)
	}
}

func TestADriverThatMisbehavesGivesNoEvidenceAndLeavesNothing(t *testing.T) {
	for mode, want := range map[string]string{
		"exit:97": "log in", "exit:98": "cloud", "exit:100": "setup", "exit:101": "teardown", "exit:103": "REST API",
		"exit:104": "options", "exit:105": "interrupted", "exit:106": "listen", "exit:107": "threw", "exit:108": "aborted",
		"exit:109": "crashed", "exit:110": "marked the run as failed", "exit:255": "command line",
		"nothing": "Only 0 requests", "silent": "silent for 1s", "deaf": "silent for 1s", "garbage": "400 of 2100 lines",
		"flood": "more than 100000 lines", "endless": "went on for more than 1s", "half": "ended by a signal (killed)",
	} {
		t.Run(strings.ReplaceAll(mode, ":", " "), func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			r, err := standInRunner(t, mode+" "+pid).Run(t.Context(), scenarioFor(fixtureShape()), nil)
			require.NoError(t, err)
			require.Contains(t, strings.Join(r.Invalid, " "), want)
			if fileExists(pid) { // else it was so slow to start that it was ended before it wrote its number
				requireGone(t, pid)
			}
		})
	}
}

func TestAnOverlongLineAndAGrandchildAreBorne(t *testing.T) {
	for _, mode := range []string{"overlong", "orphan"} {
		r, err := standInRunner(t, mode).Run(t.Context(), scenarioFor(fixtureShape()), nil)
		require.NoError(t, err)
		require.Empty(t, r.Invalid, mode)
	}
}

func TestCancelInterruptsEvenADriverThatIgnoresIt(t *testing.T) {
	for _, mode := range []string{"silent", "deaf"} {
		pid := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("somebody pressed cancel")
		go func() {
			for !fileExists(pid) && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			cancel(stop)
		}()
		r := standInRunner(t, mode+" "+pid)
		r.silence = time.Minute
		_, err := r.Run(ctx, scenarioFor(fixtureShape()), nil)
		require.ErrorIs(t, err, stop)
		requireGone(t, pid)
	}
}

func TestADriverDiesWithItsParent(t *testing.T) {
	control := newControl(t)
	for _, driver := range []string{"k6", string(Builtin)} {
		t.Run(driver, func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			path := driver
			if driver == "k6" {
				path = standInK6(t, "silent "+pid)
			}
			s := Scenario{Shape: fixtureShape(), Target: control.URL, Controls: map[string]string{"server-1": control.URL + "/control"}}
			s.Shape.Phases[0].Duration = Duration(time.Minute)
			s.Shape.Events = []Event{{Action: ActionFail, Backend: "server-1"}}
			in, err := json.Marshal(s)
			require.NoError(t, err)
			parent := exec.Command(os.Args[0], "parent", path)
			parent.Stdin = bytes.NewReader(in)
			require.NoError(t, parent.Start())
			defer func() { _ = parent.Wait() }()
			if driver == "k6" {
				waitFor(t, func() bool { return fileExists(pid) })
			} else {
				waitFor(t, func() bool { return control.last() == `{"down":true}` })
				require.NoError(t, os.WriteFile(pid, []byte(childOf(t, parent.Process.Pid)), 0o600))
			}
			require.NoError(t, parent.Process.Kill())
			requireGone(t, pid)
			if driver != "k6" {
				require.Equal(t, reviveBody, control.last())
			}
		})
	}
}

func TestTouchedBackendsAreRevivedWhateverTheDriverDid(t *testing.T) {
	control := newControl(t)
	s := scenarioFor(fixtureShape())
	s.Shape.Events = []Event{{Action: ActionFail, Backend: "server-1"}}
	s.Controls = map[string]string{"server-1": control.URL + "/control"}
	_, err := standInRunner(t, "half").Run(t.Context(), s, nil)
	require.NoError(t, err)
	require.Equal(t, reviveBody, control.last())

	s.Controls["server-1"] = control.URL + "/missing"
	r, err := standInRunner(t, "exit:0").Run(t.Context(), s, nil)
	require.NoError(t, err)
	for _, when := range []string{"Before", "After"} {
		require.Contains(t, r.Invalid, when+" the run, backend server-1 could not be revived: its control endpoint answered 404 Not Found.")
	}
}

func TestAScenarioThatCanNotBeRunIsRefusedWithEveryFault(t *testing.T) {
	s := scenarioFor(fixtureShape())
	s.Target = "ftp://x"
	s.Shape.Events = []Event{{Action: ActionFail, Backend: "server-9"}}
	_, err := standInRunner(t, "exit:0").Run(t.Context(), s, nil)
	require.ErrorContains(t, err, "target: ")
	require.ErrorContains(t, err, "server-9 has no control URL")
}

// control is a target and a control endpoint that keeps what it was told.
type control struct {
	*httptest.Server
	told chan string // one element: the latest
}

func newControl(t *testing.T) *control {
	c := &control{told: make(chan string, 1)}
	c.told <- ""
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/control":
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			<-c.told
			c.told <- b.String()
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *control) last() string {
	s := <-c.told
	c.told <- s
	return s
}

// waitFor waits until ok holds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond)
}

func fileExists(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && len(b) > 0
}

// requireGone waits until the process named in the file is gone.
func requireGone(t *testing.T, pidFile string) {
	t.Helper()
	b, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(b))
	require.NoError(t, err)
	waitFor(t, func() bool { return !running(pid) })
}

// running reports whether a process is there and no zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// childOf is the only child of a process.
func childOf(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
