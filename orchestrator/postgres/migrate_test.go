package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/pgtest"
)

// empty is a database without our schema.
func empty(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	pgtest.DSN(t) // starts the server
	admin := connect(t, pgtest.Server().DSN())
	for _, sql := range []string{"DROP DATABASE IF EXISTS bare WITH (FORCE)", "CREATE DATABASE bare"} {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	config, err := pgx.ParseConfig(pgtest.Server().DSNOf("bare"))
	require.NoError(t, err)
	return config
}

func TestSeveralInstancesMigrateAtOnce(t *testing.T) {
	config := empty(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := postgres.Migrate(t.Context(), config); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	conn := connect(t, config.ConnString())
	var versions, distinct int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0").Scan(&versions, &distinct))
	require.Positive(t, versions)
	require.Equal(t, distinct, versions, "each migration ran once")
}

func TestAnOlderBinaryRefusesANewerSchema(t *testing.T) {
	dsn := pgtest.DSN(t)
	_, err := connect(t, dsn).Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	require.ErrorContains(t, err, "schema is at version 9999, this binary knows versions up to")
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	pgtest.DSN(t)
	_, err := postgres.Open(t.Context(), "postgres://u:secret@%zz", postgres.Options{})
	require.ErrorContains(t, err, "the database's address")
	require.NotContains(t, err.Error(), "secret")
	_, err = postgres.Open(t.Context(), pgtest.Server().DSNOf("nowhere"), postgres.Options{})
	require.ErrorContains(t, err, `database "nowhere" does not exist`, "a refusal is not waited out")
}
