package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"retune/orchestrator/postgres/managed"
	"retune/orchestrator/postgres/pgtest"
)

// startPostgres runs a Postgres that is not the orchestrator's child, and that is started again when it dies, as by its
// supervisor. Orchestrators reach it through w.relay.
func (w *town) startPostgres() {
	w.t.Helper()
	s, err := managed.Start(context.Background(), managed.Config{DataDir: w.path("database"), BinDir: os.Getenv("RETUNE_PG_BIN"), Ephemeral: true})
	if err != nil {
		pgtest.Missing(w.t, err)
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { s.Keep(context.Background(), func(string) {}) })
	w.t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			w.t.Error(err)
		}
		keeping.Wait()
	})
	w.t.Cleanup(w.stop) // before it
	config, err := pgx.ParseConfig(s.DSN())
	require.NoError(w.t, err)
	w.postgres = s
	w.relay = newRelay(w.t, filepath.Join(config.Host, fmt.Sprintf(".s.PGSQL.%d", config.Port)))
}

// session is a connection past the relay, which the caller closes.
func (w *town) session() *pgx.Conn {
	w.t.Helper()
	var c *pgx.Conn
	w.until("Postgres takes a connection", 20*time.Second, func() (ok bool) {
		var err error
		c, err = pgx.Connect(context.Background(), w.postgres.DSN())
		return err == nil
	})
	return c
}

func (w *town) exec(sql string, args ...any) {
	w.t.Helper()
	c := w.session()
	defer c.Close(context.Background())
	_, err := c.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err, sql)
}

// count is the number that a query answers.
func (w *town) count(sql string, args ...any) (n int) {
	w.t.Helper()
	c := w.session()
	defer c.Close(context.Background())
	require.NoError(w.t, c.QueryRow(context.Background(), sql, args...).Scan(&n), sql)
	return n
}

// rows are what a query answers, each row's columns joined by blanks.
func (w *town) rows(sql string, args ...any) (all []string) {
	w.t.Helper()
	c := w.session()
	defer c.Close(context.Background())
	rows, err := c.Query(context.Background(), sql, args...)
	require.NoError(w.t, err, sql)
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		require.NoError(w.t, err)
		all = append(all, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	require.NoError(w.t, rows.Err())
	return all
}

// holdLock is the advisory lock that a held transaction waits for.
const holdLock = 4711

// holdBack makes the first transaction that inserts such a row wait, in the middle of it. reached says whether one does;
// release lets it go.
func (w *town) holdBack(table, when string) (reached func() bool, release func()) {
	w.t.Helper()
	c := w.session()
	for _, sql := range []string{
		fmt.Sprintf("SELECT pg_advisory_lock(%d)", holdLock),
		fmt.Sprintf(`CREATE FUNCTION hold_back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock(%d); RETURN NEW; END $$`, holdLock),
		fmt.Sprintf("CREATE TRIGGER hold_back BEFORE INSERT ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION hold_back()", table, when),
	} {
		_, err := c.Exec(context.Background(), sql)
		require.NoError(w.t, err, sql)
	}
	reached = func() bool {
		return w.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted", holdLock) > 0
	}
	return reached, sync.OnceFunc(func() { c.Close(context.Background()) }) // if the server is still there, that frees the lock
}

// fullDisk has every write of a transaction fail as on a disk without room, for as long as there is a row in disk_full.
const fullDisk = `
CREATE TABLE disk_full (yes bool);
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF EXISTS (SELECT FROM disk_full) THEN
		RAISE EXCEPTION 'could not extend file "base/5/16384": No space left on device' USING ERRCODE = 'disk_full';
	END IF;
	RETURN NULL;
END $$;
DO $$ DECLARE t text; BEGIN
	FOREACH t IN ARRAY ARRAY['cycle', 'cycle_step', 'cycle_live', 'run', 'decision', 'rule_version', 'rule_pointer', 'activation', 'schedule'] LOOP
		EXECUTE format('CREATE TRIGGER no_room AFTER INSERT OR UPDATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION no_room()', t);
	END LOOP;
END $$`

// serverSaid reports whether Postgres has logged a text.
func (w *town) serverSaid(text string) bool {
	b, err := os.ReadFile(w.path("database", "postgres.log"))
	require.NoError(w.t, err)
	return strings.Contains(string(b), text)
}

// sessionOf is the backend that holds the session of the instance which owns a cycle.
func (w *town) sessionOf(cycle int64) int {
	w.t.Helper()
	return w.count(`SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 21076 AND l.granted
		AND l.objid = (SELECT coalesce((SELECT owner FROM cycle WHERE id = $1), (SELECT last_value FROM instance_seq)::int))::oid`, cycle)
}
