package main

import (
	"flag"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/balance"
	"retune/proxy/demo"
)

var chaos = flag.Bool("chaos", false, "strike every blow in every step of a cycle, not a sample of them alone")

// struck is one combination of the matrix.
type struck struct {
	step step
	blow blow
}

func (s struck) String() string { return string(s.step) + "/" + string(s.blow) }

// sample is what `make test` strikes; `make test-chaos` strikes all.
var sample = []struck{{verifying, theOrchestrator}, {keeping, thePostmaster}, {settling, theProxy}}

// chaosOnly leaves out what takes too long for every run of the tests.
func chaosOnly(t *testing.T, sampled bool) {
	t.Helper()
	if !*chaos && !sampled {
		t.Skip("not in the sample: `make test-chaos` runs it, or -chaos")
	}
}

// matrix is every combination that there is: no driver runs outside of a load, and what is held in a transaction tells
// nothing about a Postgres that is slow.
func matrix() (all []struck) {
	for _, s := range []step{inQueue, inBaseline, generating, applying, settling, verifying, keeping, kept, rollingBack, cancelling} {
		for _, v := range []blow{theOrchestrator, byTerm, theProxy, theDriver, thePostmaster, aBackend, theSession, refused, unheard, late, readOnly, fullOfIt} {
			loaded := s == inBaseline || s == settling || s == verifying
			held := s == inQueue || s == keeping || s == rollingBack || s == cancelling
			switch {
			case v == theDriver && !loaded, v == late && held:
			case s == kept && (v == readOnly || v == fullOfIt): // it is written already
			default:
				all = append(all, struck{s, v})
			}
		}
	}
	return all
}

// Whatever is struck in whatever step: the champion is in force, or what was kept before; no version, run or
// activation is missing or doubled; nothing is left over; the record says what happened; and the next cycle can run.
func TestChaos(t *testing.T) {
	all := matrix()
	require.Len(t, all, 107)
	require.Subset(t, all, sample)
	for _, c := range all {
		t.Run(c.String(), func(t *testing.T) {
			chaosOnly(t, slices.Contains(sample, c))
			t.Parallel()
			inTown(t, func(w *town) {
				m := w.enter(c.step)
				runs := w.validRuns(m.cycle)
				w.strike(c.blow, m)
				end := w.over(m, runs)
				require.Contains(t, ends(c.step, c.blow), end.Status, end.Why)
				t.Logf("%s: %s", end.Status, end.Why)
				w.sound(end)
				w.next(end)
			})
		})
	}
}

// order is how far each status is.
var order = []orchestrator.Status{orchestrator.Queued, orchestrator.Baseline, orchestrator.Generating, orchestrator.Applying, orchestrator.Settling, orchestrator.Verifying}

// over waits for the cycle's end. One that has gone on is cancelled: it has come to a later step, or, in the last, has
// made another run.
func (w *town) over(m moment, runs int) (c orchestrator.Cycle) {
	w.t.Helper()
	at := slices.Index(order, orchestrator.Status(m.step))
	asked := false
	w.until("the cycle ends, or goes on", cycleLasts, func() bool {
		if err := w.api.call(w.t.Context(), http.MethodGet, cyclePath(m.cycle), nil, &c); err != nil || c.Status.Ended() {
			return err == nil
		}
		further := at >= 0 && slices.Index(order, c.Status) > at || m.step == verifying && w.validRuns(m.cycle) > runs
		if further && !asked {
			asked = w.api.call(w.t.Context(), http.MethodPost, cyclePath(m.cycle)+"/cancel", nil, nil) == nil
		}
		return false
	})
	return c
}

func (w *town) validRuns(cycle int64) int {
	w.t.Helper()
	return w.count("SELECT count(*) FROM run WHERE cycle_id = $1 AND invalid = '{}'", cycle)
}

// sound asserts that nothing is lost, doubled or left over after a cycle.
func (w *town) sound(c orchestrator.Cycle) {
	w.t.Helper()
	require.NotEmpty(w.t, c.Why, "the record says what happened")
	w.until("it has found Postgres again", 30*time.Second, func() bool {
		return w.api.call(w.t.Context(), http.MethodGet, "/versions", nil, nil) == nil
	})
	inForce := 1
	if c.Status == orchestrator.Kept {
		inForce = c.Candidate
	}
	w.champion(inForce)
	require.Equal(w.t, []string{"true true true"}, w.rows("SELECT accepted = $1, desired = accepted, trial_cycle IS NULL FROM rule_pointer", inForce))
	w.until("the ledger knows that it is applied", 10*time.Second, func() bool {
		return w.count("SELECT count(*) FROM rule_pointer WHERE applied_gen = generation AND applied = accepted") == 1
	})
	w.onceEach(c)
	w.until("no load driver is left over", 5*time.Second, func() bool { return len(w.loadDrivers()) == 0 })
	require.Equal(w.t, slices.Repeat([]demo.Control{{Slowdown: 1}}, 4), w.control(nil), "every backend is well")
	temporary, err := filepath.Glob(w.path("decision-rules.yml.*"))
	require.NoError(w.t, err)
	require.Empty(w.t, temporary)
}

// onceEach asserts that versions, moves, steps and runs are each there once, and follow from one another.
func (w *town) onceEach(c orchestrator.Cycle) {
	w.t.Helper()
	require.Empty(w.t, w.rows("SELECT version FROM (SELECT version, row_number() OVER (ORDER BY version) AS n FROM rule_version) v WHERE version <> n"), "versions have no gap")
	require.Equal(w.t, max(1, c.Candidate), w.count("SELECT max(version) FROM rule_version"), "a version is the cycle's candidate")
	require.Empty(w.t, w.rows(`SELECT * FROM (SELECT generation, generation - lag(generation) OVER w AS step, previous, lag(version) OVER w AS before FROM activation
		WINDOW w AS (ORDER BY generation)) a WHERE step <> 1 OR previous <> before`), "each move sets out from the one before")
	require.Equal(w.t, []string{"true true"}, w.rows(`SELECT a.generation = p.generation, a.version = p.desired FROM rule_pointer p,
		(SELECT * FROM activation ORDER BY generation DESC LIMIT 1) a`), "the pointer is where the last move led")
	accepted := 0
	if c.Status == orchestrator.Kept {
		accepted = 1
	}
	require.Equal(w.t, accepted, w.count("SELECT count(*) FROM activation WHERE kind = 'accept'"))
	require.Empty(w.t, w.rows("SELECT seq, name FROM (SELECT seq, name, row_number() OVER (ORDER BY seq) AS n, finished_at FROM cycle_step WHERE cycle_id = $1) s WHERE seq <> n OR finished_at IS NULL", c.ID),
		"the timeline is whole and closed")
	require.Equal(w.t, []string{string(c.Status)}, w.rows("SELECT name FROM cycle_step WHERE cycle_id = $1 ORDER BY seq DESC LIMIT 1", c.ID))
	require.Empty(w.t, w.rows("SELECT scenario, arm, pair, count(*) FROM run WHERE invalid = '{}' GROUP BY cycle_id, scenario, arm, pair HAVING count(*) > 1"), "no run twice")
	require.Empty(w.t, w.rows("SELECT r.id FROM run r JOIN cycle c ON c.id = r.cycle_id WHERE r.created_at > c.finished_at"), "no run after the end")
	require.Empty(w.t, w.rows("SELECT r.id FROM run r WHERE (SELECT count(*) FROM run_series s WHERE s.run_id = r.id) <> 7"), "every run is whole")
}

// next runs another cycle to its end: it measures what is in force and finds that nothing is to be changed.
func (w *town) next(before orchestrator.Cycle) {
	w.t.Helper()
	rs := everywhere(balance.RoundRobin)
	if before.Status == orchestrator.Kept {
		rs = candidate
	}
	id := w.propose(rs, false, "short")
	require.Greater(w.t, id, before.ID)
	c := w.ended(id, cycleLasts)
	measurable(c)
	require.Equal(w.t, orchestrator.NoChange, c.Status, c.Why)
	require.Equal(w.t, 2, w.count("SELECT count(*) FROM cycle"))
}
