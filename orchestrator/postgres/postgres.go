// Package postgres is the archive and the queue of the orchestrator, in Postgres.
package postgres

import (
	"context"
	"errors"
	"log/slog"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
)

// Store keeps versions, the pointer, cycles, runs, schedules and what was said. Safe for concurrent use, also by
// several processes on one database.
type Store struct {
	options Options
}

// Options are what a store needs to know beside its database. The zero value is usable.
type Options struct {
	Target  string         // the target of cycles that name none; "proxy" by default
	Machine string         // whose noise runs tell of; the host name by default
	Limits  verdict.Limits // of cycles that set none; verdict.DefaultLimits by default
	Log     *slog.Logger   // slog.Default by default
}

var (
	_ orchestrator.Ledger   = (*Store)(nil)
	_ orchestrator.Notebook = (*Store)(nil)
	_ orchestrator.Queue    = (*Store)(nil)
)

var errUnbuilt = errors.New("postgres: not built yet")

// Open connects, waits for a server that is starting, migrates the schema and takes an instance number.
// dsn is a URL or key=value string as libpq takes it. Close the store when done.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) { return nil, errUnbuilt }

// Listen listens for wake-ups and keeps this instance's claim on its cycles alive until ctx ends; it reconnects by itself.
func (s *Store) Listen(ctx context.Context) error { return errUnbuilt }

// Close gives up this instance's claims and closes the connections.
func (s *Store) Close() {}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return errUnbuilt }

// Lost is signalled when this instance's claim on its running cycle is gone: cancel the cycle, another instance ends it.
func (s *Store) Lost() <-chan struct{} { return nil }

// Wake is signalled when there may be something to claim or to cancel, and every 2 s.
func (s *Store) Wake() <-chan struct{} { return nil }
