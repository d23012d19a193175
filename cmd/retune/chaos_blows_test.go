package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
)

// A blow is what is struck, and how.
type blow string

// The blows, named by their victim.
const (
	theOrchestrator blow = "orchestrator" // kill -9
	theProxy        blow = "proxy"        // kill -9
	theDriver       blow = "load"         // kill -9 of the load driver
	thePostmaster   blow = "postmaster"   // kill -9 of Postgres
	aBackend        blow = "backend"      // kill -9 of the process behind a session: Postgres restarts all of them
	theSession      blow = "session"      // its end alone
	byTerm          blow = "sigterm"      // the orchestrator is told to stop
	refused         blow = "refusing"     // Postgres refuses connections
	unheard         blow = "hung"         // Postgres does not answer
	late            blow = "slow"         // Postgres answers late: seconds per transaction
	readOnly        blow = "read-only"    // Postgres takes no writes
	fullOfIt        blow = "disk-full"    // Postgres has no room
)

// stopsWithin is how long `retune serve` takes to stop at most, whatever else is down: 6 s each to record a rollback, to
// apply by hand and to save the end, and the driver's grace of 12 s.
const stopsWithin = 30 * time.Second

// strike does it in a moment, and mends it: what was killed is started again, as by its supervisor.
func (w *town) strike(v blow, m moment) {
	w.t.Helper()
	switch v {
	case theOrchestrator:
		w.kill("orchestrator")
		m.release()
		w.adminBy = w.admin
		w.startOrchestrator()
	case byTerm:
		w.stopGently(m)
		w.adminBy = w.admin
		w.startOrchestrator()
	case theProxy:
		w.kill("proxy")
		m.release()
		w.startProxy()
	case theDriver:
		for _, pid := range w.loadDrivers() {
			require.NoError(w.t, syscall.Kill(pid, syscall.SIGKILL))
		}
	case thePostmaster:
		require.NoError(w.t, syscall.Kill(w.postgres.Pid(), syscall.SIGKILL))
		m.release()
	case aBackend:
		require.NoError(w.t, syscall.Kill(w.sessionOf(m.cycle), syscall.SIGKILL))
		m.release()
	case theSession:
		w.exec("SELECT pg_terminate_backend($1)", w.sessionOf(m.cycle))
		m.release()
	case refused, unheard:
		w.cutOff(map[blow]weather{refused: refusing, unheard: hung}[v], m)
	case late:
		w.relay.become(slow)
		m.release()
		w.until("ten messages were late", time.Minute, func() bool { return w.relay.late.Load() >= 10 })
		w.relay.become(fair)
	case readOnly:
		w.exec("ALTER SYSTEM SET default_transaction_read_only = on")
		w.exec("SELECT pg_reload_conf()")
		m.release()
		w.untilRefused(m, "in a read-only transaction")
		w.exec("ALTER SYSTEM RESET default_transaction_read_only")
		w.exec("SELECT pg_reload_conf()")
	case fullOfIt:
		w.exec("INSERT INTO disk_full VALUES (true)")
		m.release()
		w.untilRefused(m, "No space left on device")
		w.exec("TRUNCATE disk_full")
	default:
		w.t.Fatalf("no blow %q", v)
	}
}

// stopGently tells the orchestrator to stop: before it has ended, the champion is in force and the cycle's end in the
// ledger.
func (w *town) stopGently(m moment) {
	w.t.Helper()
	p := w.process("orchestrator")
	begin := time.Now()
	require.NoError(w.t, p.cmd.Process.Signal(syscall.SIGTERM))
	m.release()
	select {
	case <-p.done:
	case <-time.After(stopsWithin):
		w.t.Fatalf("it did not stop within %s", stopsWithin)
	}
	w.t.Logf("stopped after %s", time.Since(begin).Round(10*time.Millisecond))
	if m.step == inQueue {
		return
	}
	require.Empty(w.t, w.loadDrivers())
	require.Zero(w.t, w.count("SELECT count(*) FROM cycle WHERE finished_at IS NULL"), "the cycle has ended")
	now, err := w.alb.Serving(context.Background())
	require.NoError(w.t, err)
	require.Equal(w.t, w.count("SELECT accepted FROM rule_pointer"), now.Version, "what is in force")
}

// cutOff makes Postgres unreachable until the session is lost, and the champion is back without a ledger.
func (w *town) cutOff(by weather, m moment) {
	w.t.Helper()
	said := len(w.process("orchestrator").log.String())
	begin := time.Now()
	w.relay.become(by)
	m.release()
	if m.step.onTrial() || m.step == applying {
		w.until("the champion is in force without a ledger", 30*time.Second, func() bool {
			now, err := w.alb.Serving(context.Background())
			return err == nil && now.Version == 1
		})
		w.t.Logf("the candidate was in force for %s more", time.Since(begin).Round(10*time.Millisecond))
	}
	w.until("the loss is noticed", 30*time.Second, func() bool {
		return strings.Contains(w.process("orchestrator").log.String()[said:], "session with Postgres is lost")
	})
	w.relay.become(fair)
}

// untilRefused waits until Postgres has refused a write, one of the cycle's where it can be seen that it was.
func (w *town) untilRefused(m moment, why string) {
	w.t.Helper()
	w.until(fmt.Sprintf("Postgres says %q", why), time.Minute, func() bool { return w.serverSaid(why) })
	switch m.step {
	case inBaseline, generating:
		w.until("the cycle's end could not be stored", time.Minute, func() bool {
			return strings.Contains(w.process("orchestrator").log.String(), "the cycle's end could not be stored")
		})
	case applying, settling, verifying:
		w.until("the champion is in force without a ledger", time.Minute, func() bool {
			now, err := w.alb.Serving(context.Background())
			return err == nil && now.Version == 1
		})
	}
}

// ends are the statuses that a cycle may end with when a blow is struck in a step. Cancelled stands for "it went on", in
// which case the test cancels it.
func ends(s step, v blow) []orchestrator.Status {
	const (
		goesOn      = orchestrator.Cancelled
		interrupted = orchestrator.Interrupted
		failed      = orchestrator.Failed
	)
	switch {
	case s == kept:
		return []orchestrator.Status{orchestrator.Kept}
	case s == cancelling:
		return []orchestrator.Status{orchestrator.Cancelled}
	case v == late:
		return []orchestrator.Status{goesOn, failed, orchestrator.Kept, orchestrator.RolledBack}
	case v == theDriver:
		return []orchestrator.Status{goesOn}
	case s == inQueue:
		return []orchestrator.Status{goesOn, failed}
	}
	switch v {
	case theProxy:
		if s == generating {
			return []orchestrator.Status{goesOn}
		}
		return []orchestrator.Status{failed, map[step]orchestrator.Status{applying: goesOn, keeping: orchestrator.Kept, rollingBack: orchestrator.RolledBack}[s]}
	case readOnly, fullOfIt:
		switch s {
		case keeping:
			return []orchestrator.Status{orchestrator.Kept}
		case rollingBack:
			return []orchestrator.Status{orchestrator.RolledBack}
		}
		return []orchestrator.Status{failed}
	case byTerm:
		return []orchestrator.Status{map[step]orchestrator.Status{keeping: orchestrator.Kept, rollingBack: orchestrator.RolledBack}[s], interrupted}
	case theSession:
		if s == keeping {
			return []orchestrator.Status{interrupted, orchestrator.Kept}
		}
		if s == rollingBack {
			return []orchestrator.Status{interrupted, orchestrator.RolledBack}
		}
	}
	return []orchestrator.Status{interrupted}
}
