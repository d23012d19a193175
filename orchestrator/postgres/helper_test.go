package postgres_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/pgtest"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// patience is how long a test waits for what must happen; it is never waited for in full when all is well.
const patience = 20 * time.Second

// open opens one more instance on a database.
func open(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{Machine: "bench-1", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// seeded is an instance on a fresh database with version 1, and a plain connection beside it.
func seeded(t *testing.T) (*postgres.Store, *pgx.Conn, string) {
	t.Helper()
	dsn := pgtest.DSN(t)
	s := open(t, dsn)
	_, err := s.Seed(t.Context(), rules.Default(), 0)
	require.NoError(t, err)
	return s, connect(t, dsn), dsn
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func request() orchestrator.Request {
	return orchestrator.Request{Kind: orchestrator.Tune, Trigger: "cli", Actor: "tester", Profile: loadtest.Quick, Generator: "local", Driver: loadtest.Builtin}
}

// running is a cycle that an instance has claimed.
func running(t *testing.T, s *postgres.Store) orchestrator.Cycle {
	t.Helper()
	_, err := s.Enqueue(t.Context(), request())
	require.NoError(t, err)
	c, ok, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	return c
}

// draft proposes another algorithm for spikes.
func draft(parent int, cycle int64) ruleversions.Draft {
	set := rules.Default()
	set.Rules[traffic.Spike] = rules.Rule{Algorithm: balance.P2CPeakEWMA, Reason: "p95 35% lower than ROUND_ROBIN in burst", Params: rules.Params{Decay: 5 * time.Second}}
	return ruleversions.Draft{
		Parent: parent, Origin: rules.OriginLocal, Author: "local", Rules: set, Summary: "Another algorithm for spikes.", CycleID: cycle,
		Reasons: []ruleversions.Reason{{Path: "rules.SPIKE", Text: "p95 35% lower", Unsupported: []string{"35%"}}},
	}
}

// onTrial is a running cycle with its candidate on trial.
func onTrial(t *testing.T, s *postgres.Store) (orchestrator.Cycle, ruleversions.Version) {
	t.Helper()
	c := running(t, s)
	p, err := s.Pointer(t.Context())
	require.NoError(t, err)
	v, err := s.Append(t.Context(), draft(p.Accepted, c.ID))
	require.NoError(t, err)
	return put(t, s, c, v), v
}

// put puts a version on trial in a running cycle.
func put(t *testing.T, s *postgres.Store, c orchestrator.Cycle, v ruleversions.Version) orchestrator.Cycle {
	t.Helper()
	c.Champion, c.Candidate, c.Status = v.Parent, v.Number, orchestrator.Applying
	require.NoError(t, s.Save(t.Context(), c, "applying"))
	_, err := s.Move(t.Context(), orchestrator.Move{Kind: orchestrator.MoveTrial, Version: v.Number, Cycle: c.ID, Actor: "orchestrator", Reason: "trial"})
	require.NoError(t, err)
	return c
}

// end saves a cycle's last status.
func end(t *testing.T, s *postgres.Store, c orchestrator.Cycle, status orchestrator.Status) {
	t.Helper()
	c.Status, c.Why = status, string(status)
	require.NoError(t, s.Save(t.Context(), c, c.Why))
}

// killSession ends an instance's session as its death would.
func killSession(t *testing.T, c *pgx.Conn, instance int64) {
	t.Helper()
	var ended bool
	require.NoError(t, c.QueryRow(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 21076 AND objid = $1::int4::oid
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, instance).Scan(&ended))
	require.True(t, ended)
}

// clean is a target that needs no cleaning up.
func clean(context.Context, []orchestrator.Cycle) error { return nil }
