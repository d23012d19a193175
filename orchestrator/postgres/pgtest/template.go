//go:build unix

package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"

	"retune/migrations"
	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/managed"
)

const templateName = "migrated"

// template is a stopped cluster with a migrated database, made once per server version and schema.
func template(ctx context.Context) (string, error) {
	bin := os.Getenv("RETUNE_PG_BIN")
	_, version, err := managed.Find(bin)
	if err != nil {
		return "", err
	}
	root, err := cacheDir()
	if err != nil {
		return "", err
	}
	key, err := cacheKey(version)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, key)
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		err = build(ctx, managed.Config{DataDir: dir + ".new", BinDir: bin, Ephemeral: true})
		if err == nil {
			err = os.Rename(dir+".new", dir)
		}
		if err != nil {
			return "", fmt.Errorf("building the template cluster: %w", err)
		}
	}
	return filepath.Join(dir, "pg"), nil
}

// cacheDir is where templates are kept; as root, where the account that runs Postgres can read.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 {
		cache = "/var/tmp"
	}
	dir := filepath.Join(cache, fmt.Sprintf("retune-pgtest-%d", os.Geteuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of ours", dir)
	}
	return dir, nil
}

// cacheKey names a template by the server's version and the schema's bytes.
func cacheKey(version string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, version)
	err := fs.WalkDir(migrations.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(migrations.Files, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// build makes the cluster. What an earlier attempt left is removed.
func build(ctx context.Context, c managed.Config) (err error) {
	if err := os.RemoveAll(c.DataDir); err != nil {
		return err
	}
	server, err := managed.Start(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+templateName); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(server.DSNOf(templateName))
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, config); err != nil {
		return err
	}
	// A stray session would make each copy fail.
	_, err = conn.Exec(ctx, "ALTER DATABASE "+templateName+" IS_TEMPLATE true ALLOW_CONNECTIONS false")
	return err
}
