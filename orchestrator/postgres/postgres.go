// Package postgres is the orchestrator's ledger, notebook and queue, in Postgres.
//
// The cycle table is the queue. An instance (one open Store) claims a queued cycle and owns it; that the instance
// lives is shown by an advisory lock which its session holds: when the process dies its socket closes, the lock is
// free, and any other instance ends the cycle as interrupted and puts the champion back, in one transaction. Every
// write to a cycle is fenced by its owner, so an instance that lost its session can't disturb what came after.
//
//	Store.Listen ── session: advisory lock + LISTEN ── Wake, Lost
//	Store.Claim ─▶ owner ─▶ Save … Save(ended)
//	                 └─ dies ─▶ Reclaim by another: crash_rollback, clean up, interrupted
//
// A process that is stopped but not dead keeps its socket. Its session is ended by the next instance that looks, once
// it has said nothing for 12 s.
//
// Rule versions are append-only, their numbers gapless. The pointer is one row that is only changed under its lock
// (Move); its generation grows with each change, and proxies refuse a lower one.
//
// Locks are taken in this order: rule_version, rule_pointer, cycle.
package postgres

//go:generate go run generate.go

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"retune/orchestrator"
	"retune/orchestrator/postgres/queries"
	"retune/orchestrator/verdict"
)

var (
	_ orchestrator.Ledger   = (*Store)(nil)
	_ orchestrator.Notebook = (*Store)(nil)
	_ orchestrator.Queue    = (*Store)(nil)
)

// Options are what a store needs to know beside its database. The zero value is usable.
type Options struct {
	Target  string         // the target of cycles that name none; "proxy" by default
	Machine string         // that makes the load, for the noise that is known of it; the host name by default
	Limits  verdict.Limits // of cycles that set none; verdict.DefaultLimits by default
	Log     *slog.Logger   // slog.Default by default
}

// Store is the database. Its methods are safe for concurrent use, also by several processes on one database.
type Store struct {
	options Options
	log     *slog.Logger
	pool    *pgxpool.Pool
	q       *queries.Queries
	wake    chan struct{}

	mu      sync.Mutex
	session session      // guarded by mu
	former  map[int]bool // guarded by mu: instance numbers under which sessions of this store were lost
}

const (
	minConns  = 12               // pages, cycle, journal and live progress at once
	openFor   = 30 * time.Second // how long Open waits for a server that is starting
	openRetry = 200 * time.Millisecond

	connectPatience = 5 * time.Second // a host that does not answer for so long is not there
	queryPatience   = "15s"           // after which the server gives up a query, waits for locks included
)

// Open connects, waits up to 30 s for a server that is starting, migrates the schema, and takes an instance number.
// dsn is a URL or key=value text as libpq takes it. A transaction-mode pooler between will not do: liveness and
// wake-ups belong to a session.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("the database's address: %w", err)
	}
	config.MaxConns = max(config.MaxConns, minConns)
	config.AfterConnect = readUTC
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectPatience)
	o.Log = cmp.Or(o.Log, slog.Default())
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := awaitServer(ctx, config.ConnConfig, o.Log); err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	if err := Migrate(ctx, config.ConnConfig); err != nil {
		return nil, fmt.Errorf("migrating the database: %w", err)
	}
	setDefault(config.ConnConfig, "statement_timeout", queryPatience) // not before: a migration may take its time
	setDefault(config.ConnConfig, "synchronous_commit", "on")         // whatever the server's: a verdict that was told of stays
	for name, to := range keepalives {
		setDefault(config.ConnConfig, name, to)
	}
	nameConnections(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	s := &Store{options: o, log: o.Log, pool: pool, q: queries.New(pool), wake: make(chan struct{}, 1), former: map[int]bool{}}
	if err := s.join(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening a session with Postgres: %w", err)
	}
	return s, nil
}

// setDefault sets a parameter of a connection's server session, unless the database's address sets it.
func setDefault(c *pgx.ConnConfig, name, to string) {
	if c.RuntimeParams[name] == "" {
		c.RuntimeParams[name] = to
	}
}

// nameConnections gives all connections of this store a name that no other has, before the one that the database's address
// gives them: whoever ends the session of a process that is stopped ends its open transactions by it.
func nameConnections(c *pgx.ConnConfig) {
	const name = "application_name"
	c.RuntimeParams[name] = strings.TrimSpace("retune-" + strings.ToLower(rand.Text()[:12]) + " " + c.RuntimeParams[name])
}

// complete fills in the defaults.
func (o *Options) complete() (err error) {
	o.Target = cmp.Or(o.Target, "proxy")
	o.Limits = cmp.Or(o.Limits, verdict.DefaultLimits())
	if o.Machine == "" {
		if o.Machine, err = os.Hostname(); err != nil {
			return fmt.Errorf("naming this machine: %w", err)
		}
	}
	return nil
}

// readUTC makes instants come back in UTC, whatever the machine's zone.
func readUTC(_ context.Context, c *pgx.Conn) error {
	c.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

// awaitServer tries to connect until the server answers. A refusal that waiting does not mend is an error at once.
func awaitServer(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	ctx, stop := context.WithTimeout(ctx, openFor)
	defer stop()
	for first := true; ; first = false {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil || refused(err) {
			return err
		}
		if first {
			log.Warn("Postgres does not answer yet; waiting", "for", openFor, "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(openRetry):
		}
	}
}

// refused reports whether a server answered and meant it: anything but "starting up" and "too many connections".
func refused(err error) bool {
	code := codeOf(err)
	return code != "" && code != "57P03" && code != "53300"
}

// Close gives up this instance's session, and with it the cycles that it owns, and closes the connections. Listen
// and all calls must have returned.
func (s *Store) Close() {
	s.leave()
	s.pool.Close()
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	return nil
}

// tx runs f in a transaction; an error undoes it.
func (s *Store) tx(ctx context.Context, f func(q *queries.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(s.q.WithTx(tx)) })
}

// Postgres' error codes that mean something to us.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
)

// codeOf is the Postgres code of an error; empty when it has none.
func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// found turns "no rows" into the orchestrator's word for it.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return orchestrator.ErrNotFound
	}
	return err
}

// limited bounds how many rows a list may be asked for.
func limited(n int) int64 { return int64(min(max(n, 1), 1000)) }

// null is a value for a column in which the zero value stands for nothing.
func null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value is the zero value where a column holds nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// clean makes text storable: Postgres takes no NUL and no broken UTF-8, both of which a model or a program may write.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func cleanAll(list []string) []string {
	out := make([]string, len(list)) // never nil: the columns are NOT NULL
	for i, text := range list {
		out[i] = clean(text)
	}
	return out
}

// encode writes a JSON column.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return cleanJSON(b), err
}

// cleanJSON is clean for JSON, whose broken UTF-8 json.Marshal has replaced already.
func cleanJSON(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`\u0000`), []byte(`\ufffd`)) }

// decode reads a JSON column; an empty one leaves v as it is.
func decode(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, v)
}
