package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"retune/migrations"
)

const (
	migrationLock = 0x7265747565          // the advisory lock that instances which migrate take turns by
	lockRetry     = 50 * time.Millisecond // how often it is tried
)

// Migrate brings the schema to this binary's version. Several processes may call it at once. A schema that is newer
// than this binary is an error.
//
// The lock is held on a connection of its own. It is tried, not waited for: a waiting SELECT holds a snapshot, which
// would dead-lock with CREATE INDEX CONCURRENTLY.
func Migrate(ctx context.Context, config *pgx.ConnConfig) error {
	lock, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer lock.Close(context.WithoutCancel(ctx))
	for {
		var ours bool
		if err := lock.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrationLock).Scan(&ours); err != nil {
			return fmt.Errorf("taking the migration lock: %w", err)
		}
		if ours {
			return applyMigrations(ctx, config)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another instance to migrate the schema: %w", ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// applyMigrations runs goose; the lock is held.
func applyMigrations(ctx context.Context, config *pgx.ConnConfig) error {
	db := stdlib.OpenDB(*config)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	now, known, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	if now > known {
		return fmt.Errorf("the database schema is at version %d, this binary knows versions up to %d: "+
			"run the newer binary, or restore the backup from before the upgrade", now, known)
	}
	if now == known {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			return fmt.Errorf("migration %s: %w", partial.Failed.Source.Path, partial.Err)
		}
		return err
	}
	return nil
}
