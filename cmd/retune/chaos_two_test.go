package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/balance"
)

// The two orchestrators of a pair.
const (
	firstOne  = "orchestrator"
	secondOne = "orchestrator-2"
)

// startSecond starts another orchestrator on the same database, past the first one's relay, and talks to it from now on.
func (w *town) startSecond() {
	w.t.Helper()
	web := quietAddrs(w.t, 1)[0]
	w.env = append(w.env, "DATABASE_URL="+newRelay(w.t, w.relay.to).dsn())
	w.adminBy = w.admin
	w.t.Cleanup(w.stop) // before its relay
	w.startOrchestratorAs(secondOne, web)
	var err error
	w.api, err = serverFlags{Server: "http://" + web}.client()
	require.NoError(w.t, err)
}

// startedBy is which of the two runs a cycle.
func (w *town) startedBy(cycle int64) string {
	w.t.Helper()
	line := fmt.Sprintf("cycle started cycle=%d ", cycle)
	for _, name := range []string{firstOne, secondOne} {
		if strings.Contains(w.process(name).log.String(), line) {
			return name
		}
	}
	return ""
}

// freeze stops the first orchestrator as SIGSTOP does, and waits until it stands.
func (w *town) freeze() {
	w.t.Helper()
	p := w.process(firstOne).cmd.Process
	require.NoError(w.t, p.Signal(syscall.SIGSTOP))
	w.until("it has stopped", 10*time.Second, func() bool { return stopped(p.Pid) })
}

// tookOver waits until the second has ended the first's cycle.
func (w *town) tookOver(m moment, want orchestrator.Status) orchestrator.Cycle {
	w.t.Helper()
	begin := time.Now()
	c := w.ended(m.cycle, time.Minute)
	w.t.Logf("%s after %s: %s", c.Status, time.Since(begin).Round(10*time.Millisecond), c.Why)
	require.Equal(w.t, want, c.Status, c.Why)
	return c
}

// One runs the cycle; whoever asks the other sees it, and can cancel it.
func TestTheOtherOfTwoOrchestratorsServesWhatOneRuns(t *testing.T) {
	chaosOnly(t, false)
	t.Parallel()
	inTown(t, func(w *town) {
		m := w.enter(inBaseline)
		w.startSecond()
		w.until("the other tells how it stands", 20*time.Second, func() bool {
			var l orchestrator.Live
			return w.api.call(t.Context(), http.MethodGet, cyclePath(m.cycle)+"/live", nil, &l) == nil && l.Load.Elapsed > 0
		})
		var busy *apiProblem
		err := w.api.call(t.Context(), http.MethodPost, "/cycles", map[string]any{"profile": "quick"}, nil)
		require.ErrorAs(t, err, &busy)
		require.Equal(t, m.cycle, busy.Cycle)
		w.call(http.MethodPost, cyclePath(m.cycle)+"/cancel", nil, nil)
		c := w.ended(m.cycle, 30*time.Second)
		require.Equal(t, orchestrator.Cancelled, c.Status, c.Why)
		require.Equal(t, firstOne, w.startedBy(m.cycle))
		w.sound(c)
		w.next(c)
	})
}

// The first dies; the second ends its cycle within seconds, and runs the one that waits.
func TestTheOtherOfTwoOrchestratorsTakesOver(t *testing.T) {
	chaosOnly(t, true)
	t.Parallel()
	inTown(t, func(w *town) {
		m := w.enter(verifying)
		w.startSecond()
		waiting := w.due(1)
		w.kill(firstOne)
		c := w.tookOver(m, orchestrator.Interrupted)
		require.Equal(t, "its process ended during the trial; v1 was put back in force", c.Why)
		w.inForce(1)
		id := int64(w.count("SELECT id FROM cycle WHERE schedule_id = $1", waiting[0]))
		w.reaches(id, orchestrator.Baseline, cycleLasts)
		w.until("the second runs it", 10*time.Second, func() bool { return w.startedBy(id) == secondOne })
		generation := w.count("SELECT generation FROM rule_pointer")
		w.startOrchestratorAs(firstOne, w.web) // it comes back, and changes nothing
		w.until("it has looked around", 20*time.Second, func() bool { return w.count("SELECT count(*) FROM pg_locks WHERE classid = 21076") == 2 })
		w.call(http.MethodPost, cyclePath(id)+"/cancel", nil, nil)
		require.Equal(t, orchestrator.Cancelled, w.ended(id, 30*time.Second).Status)
		w.idle()
		require.Equal(t, generation, w.count("SELECT generation FROM rule_pointer"))
		w.sound(c)
	})
}

// idle cancels what a schedule has brought with it: a calibration.
func (w *town) idle() {
	w.t.Helper()
	w.until("nothing runs or waits", 30*time.Second, func() bool {
		for _, id := range w.rows("SELECT id FROM cycle WHERE finished_at IS NULL AND NOT cancel_requested") {
			_ = w.api.call(w.t.Context(), http.MethodPost, "/cycles/"+id+"/cancel", nil, nil) // it may have ended by now
		}
		return w.count("SELECT count(*) FROM cycle WHERE finished_at IS NULL") == 0
	})
}

// due makes schedules whose time has come.
func (w *town) due(n int) (ids []int64) {
	w.t.Helper()
	for i := range n {
		var s orchestrator.Schedule
		w.call(http.MethodPost, "/schedules", map[string]any{"name": fmt.Sprint("nightly-", i), "cron": "@weekly", "time_zone": "UTC",
			"profile": "quick", "generator": "local", "driver": "builtin", "enabled": true}, &s)
		ids = append(ids, s.ID)
	}
	w.exec("UPDATE schedule SET next_run_at = now()")
	w.until("every schedule has moved on", 20*time.Second, func() bool { return w.count("SELECT count(*) FROM schedule WHERE next_run_at <= now()") == 0 })
	return ids
}

func TestTwoOrchestratorsFireASchedule(t *testing.T) {
	chaosOnly(t, false)
	t.Parallel()
	inTown(t, func(w *town) {
		w.startOrchestrator()
		w.startSecond()
		for _, id := range w.due(8) {
			require.Equal(t, 1, w.count("SELECT count(*) FROM cycle WHERE schedule_id = $1", id), "each once")
		}
		for id := range int64(8) { // and each is run by one of them, one after the other
			w.reaches(id+1, orchestrator.Baseline, cycleLasts)
			require.Equal(t, 1, w.count("SELECT count(*) FROM cycle WHERE status <> 'queued' AND finished_at IS NULL"))
			w.until("somebody has started it", 10*time.Second, func() bool { return w.startedBy(id+1) != "" })
			w.call(http.MethodPost, cyclePath(id+1)+"/cancel", nil, nil)
			w.ended(id+1, 30*time.Second)
			both := w.process(firstOne).log.String() + w.process(secondOne).log.String()
			require.Equal(t, 1, strings.Count(both, fmt.Sprintf("cycle started cycle=%d ", id+1)))
		}
	})
}

// An owner that is stopped, not dead, keeps its connections. It is replaced all the same; when it goes on it touches neither
// target nor ledger, also while the heir measures.
func TestAnOwnerThatWasFrozenIsReplaced(t *testing.T) {
	for _, s := range []step{inBaseline, generating, applying, settling, verifying, keeping, rollingBack, cancelling} {
		t.Run(string(s), func(t *testing.T) {
			chaosOnly(t, s == settling)
			t.Parallel()
			want := orchestrator.Interrupted
			if s == cancelling {
				want = orchestrator.Cancelled
			}
			inTown(t, func(w *town) {
				m := w.enter(s)
				w.startSecond()
				w.freeze()
				c := w.tookOver(m, want)
				w.sound(c)
				w.thaw(m, c)
			})
		})
	}
}

// thaw lets the first go on while the second measures.
func (w *town) thaw(m moment, c orchestrator.Cycle) {
	w.t.Helper()
	id := w.propose(everywhere(balance.RoundRobin), false, "failing")
	w.underDriver(id, orchestrator.Baseline)
	before, err := w.alb.Serving(context.Background())
	require.NoError(w.t, err)
	generation := w.count("SELECT generation FROM rule_pointer")
	require.NoError(w.t, w.process(firstOne).cmd.Process.Signal(syscall.SIGCONT))
	m.release()
	w.until("it knows that it was replaced", 30*time.Second, func() bool {
		said := w.process(firstOne).log.String()
		return strings.Contains(said, "not ours any more; whoever ends it") && strings.Contains(said, "session with Postgres is back")
	})
	next := w.ended(id, cycleLasts)
	measurable(next)
	require.Equal(w.t, orchestrator.NoChange, next.Status, next.Why)
	after, err := w.alb.Serving(context.Background())
	require.NoError(w.t, err)
	require.Equal(w.t, before, after, "the target was left alone")
	require.Equal(w.t, generation, w.count("SELECT generation FROM rule_pointer"))
	w.sound(c)
}

// An owner that can't reach Postgres puts the champion back by itself, and its heir, which can, ends the cycle.
func TestAnOwnerThatIsCutOffIsReplaced(t *testing.T) {
	chaosOnly(t, false)
	t.Parallel()
	inTown(t, func(w *town) {
		m := w.enter(verifying)
		w.startSecond()
		w.relay.become(hung)
		w.until("the champion is in force", 20*time.Second, func() bool {
			now, err := w.alb.Serving(t.Context())
			return err == nil && now.Version == 1
		})
		c := w.tookOver(m, orchestrator.Interrupted)
		w.sound(c)
		w.relay.become(fair)
		w.thaw(m, c)
	})
}
