package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vbauerster/mpb/v8"

	"retune/orchestrator"
)

// What is in force is said of a judged cycle alone: after a failure it may be something else.
func TestTheResultSaysWhatIsInForceWhenThatIsKnown(t *testing.T) {
	for status, want := range map[orchestrator.Status]struct {
		says string
		code int
	}{
		orchestrator.Kept:         {"v8 is in force now", exitOK},
		orchestrator.NoChange:     {"v7 stays in force", exitOK},
		orchestrator.RolledBack:   {"v7 stays in force", exitRolledBack},
		orchestrator.Inconclusive: {"v7 stays in force", exitInconclusive},
		orchestrator.Failed:       {"", exitFailed},
		orchestrator.Cancelled:    {"", exitInterrupted},
		orchestrator.Interrupted:  {"", exitInterrupted},
	} {
		var errs bytes.Buffer
		c := &cycleCmd{tableFlags: tableFlags{Output: "table"}}
		err := c.result(&output{&errs, &errs}, orchestrator.Cycle{ID: 3, Champion: 7, Candidate: 8, Status: status, Why: "as the test has it"}, "")
		require.Equal(t, want.code, exitCode(err, false), status)
		require.Contains(t, errs.String(), "as the test has it", status)
		if want.says == "" {
			require.NotContains(t, errs.String(), "in force", status)
		}
		require.Contains(t, errs.String(), want.says, status)
	}
}

// An interrupted command does not leave its cycle loading the proxy.
func TestCtrlCCancelsTheCycle(t *testing.T) {
	inFolder(t, nil)
	for _, command := range [][]string{{"cycle"}, {"doctor", "--noise"}} {
		ctx, interrupt := context.WithCancel(t.Context())
		var cancelled atomic.Bool
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := orchestrator.Baseline
			switch {
			case strings.HasSuffix(r.URL.Path, "/cancel"):
				cancelled.Store(true)
			case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/cycles/"):
				interrupt()
			}
			if cancelled.Load() {
				status = orchestrator.Cancelled
			}
			fmt.Fprintf(w, `{"id":5,"status":%q,"why":"cancelled; v1 is in force"}`, status)
		}))
		var errs bytes.Buffer
		err := run(ctx, append(command, "--server", api.URL), &errs, &errs)
		api.Close()
		require.Equal(t, exitInterrupted, exitCode(err, true), "%v: %s", command, errs.String())
		require.True(t, cancelled.Load(), "%v", command)
		require.Contains(t, errs.String(), "v1 is in force", "%v", command)
	}
}

// screen notes when a text has been shown on it.
type screen struct {
	want string
	seen chan struct{}
}

func (s *screen) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(s.want)) {
		select {
		case s.seen <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// The bar is drawn by a goroutine of its own: with -race this finds a text that is not handed over.
func TestTheBarShowsTheLatestText(t *testing.T) {
	s := &screen{want: "pair 7", seen: make(chan struct{}, 1)}
	p := &progress{w: s}
	p.show(mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Millisecond), mpb.WithWidth(120))
	defer p.end()
	for range 50 { // some are written while the bar is drawn
		p.live(orchestrator.Live{Status: orchestrator.Verifying, Detail: "pair 7"})
		time.Sleep(time.Millisecond)
	}
	select {
	case <-s.seen:
	case <-time.After(10 * time.Second):
		t.Fatal("the bar never showed the latest text")
	}
}
