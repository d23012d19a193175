//go:build unix

// Package pgtest gives each test its own migrated database, on a throw-away server per test package.
//
// A cluster with a migrated database is made once per server version and schema and kept in a cache. A test package
// that needs a database copies it (to memory where there is room), starts a server on the copy, and copies the
// database for each test, which takes about 15 ms. Without Postgres tests are skipped with the reason, but fail
// when CI is set.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"retune/orchestrator/postgres/managed"
)

// Main runs a package's tests and stops the server afterwards: func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }.
// A test binary that is killed leaves a directory behind, which the next one sweeps.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
		os.RemoveAll(shared.dir)
	}
	return code
}

// DSN is a fresh migrated database. It is dropped when the test ends.
func DSN(t testing.TB) string {
	t.Helper()
	shared.once.Do(shared.start)
	if shared.err != nil {
		Missing(t, shared.err)
	}
	name, ok := <-shared.ready
	if !ok {
		t.Fatalf("pgtest: making a database: %v", shared.err)
	}
	t.Cleanup(func() { go drop(name) }) // the server naps 100 ms for a leaving backend: not on the test's time
	return shared.server.DSNOf(name)
}

// Missing ends a test that can't have its Postgres: never silently in CI.
func Missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this test needs Postgres: %v", err)
	}
	t.Skipf("this test needs Postgres: %v", err)
}

// Server is the server that DSN's databases are on; nil before the first.
func Server() *managed.Server { return shared.server }

// shared is the package's server.
var shared pool

type pool struct {
	once   sync.Once
	server *managed.Server
	dir    string
	ready  chan string // databases that are made ahead; closed when one can't be, with the reason in err
	err    error
}

func (p *pool) start() {
	ctx := context.Background()
	template, err := template(ctx)
	if err != nil {
		p.err = err
		return
	}
	parent := fastDir()
	sweep(parent)
	p.dir = filepath.Join(parent, fmt.Sprintf("retune-test-%d-%d", os.Geteuid(), os.Getpid()))
	p.server, p.err = managed.Start(ctx, managed.Config{DataDir: p.dir, BinDir: os.Getenv("RETUNE_PG_BIN"), Ephemeral: true, Template: template})
	if p.err == nil {
		p.ready = make(chan string, 2)
		go p.fill(ctx)
	}
}

// fill keeps databases ready until the process ends.
func (p *pool) fill(ctx context.Context) {
	defer close(p.ready)
	conn, err := pgx.Connect(ctx, p.server.DSN())
	if err != nil {
		p.err = err
		return
	}
	create := "CREATE DATABASE %s TEMPLATE " + templateName
	if conn.PgConn().ParameterStatus("server_version") >= "15" {
		create += " STRATEGY file_copy" // half the time of the default, which logs each page
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("test%d", n)
		if _, err := conn.Exec(ctx, fmt.Sprintf(create, name)); err != nil {
			p.err = err
			return
		}
		p.ready <- name
	}
}

// drop is best effort: the server is thrown away anyway.
func drop(name string) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if conn, err := pgx.Connect(ctx, shared.server.DSN()); err == nil {
		_, _ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		_ = conn.Close(ctx)
	}
}

// fastDir is memory where it has room (a container's /dev/shm has 64 MB).
func fastDir() string {
	const tmpfs, room = 0x01021994, 1 << 30
	var st syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &st) == nil && int64(st.Type) == tmpfs && uint64(st.Bavail)*uint64(st.Bsize) > room {
		return "/dev/shm"
	}
	return os.TempDir()
}

// sweep removes the directories of test binaries that were killed: nobody holds their owner.lock.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, fmt.Sprintf("retune-test-%d-*", os.Geteuid())))
	for _, dir := range found {
		f, err := os.Open(filepath.Join(dir, "owner.lock"))
		if err != nil {
			continue // being made, or being removed
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}
