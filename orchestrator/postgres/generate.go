//go:build ignore

// This program writes the Go code of the queries: sqlc checks them against a database that the migrations made.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"retune/migrations"
	"retune/orchestrator/postgres/managed"
)

func main() {
	if err := generate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "generating the queries:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "retune-sqlc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // as root another account runs the server
		return err
	}
	server, err := managed.Start(ctx, managed.Config{DataDir: filepath.Join(dir, "data"), BinDir: os.Getenv("RETUNE_PG_BIN"), Ephemeral: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	config, err := pgx.ParseConfig(server.DSN())
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	sqlc := exec.CommandContext(ctx, "go", "tool", "-modfile=../../tools/go.mod", "sqlc", "generate")
	sqlc.Env = append(os.Environ(), "SQLC_DATABASE_URL="+server.DSN())
	sqlc.Stdout, sqlc.Stderr = os.Stdout, os.Stderr
	return sqlc.Run()
}
