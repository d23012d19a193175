package pgtest_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"retune/orchestrator/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEachTestHasAMigratedDatabaseOfItsOwn(t *testing.T) {
	ctx := context.Background()
	var names []string
	for range 3 {
		conn, err := pgx.Connect(ctx, pgtest.DSN(t))
		require.NoError(t, err)
		defer conn.Close(ctx)
		var name string
		var cycles int
		require.NoError(t, conn.QueryRow(ctx, "SELECT current_database(), (SELECT count(*) FROM cycle)").Scan(&name, &cycles))
		require.Zero(t, cycles)
		require.NotContains(t, names, name)
		names = append(names, name)
		_, err = conn.Exec(ctx, "INSERT INTO cycle (kind, trigger, target, profile, generator, driver, limits) VALUES ('tune', 'cli', 'x', 'quick', 'local', 'auto', '{}')")
		require.NoError(t, err)
	}
}

func BenchmarkDatabase(b *testing.B) {
	for b.Loop() {
		pgtest.DSN(b)
	}
}
