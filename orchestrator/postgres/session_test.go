package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Over the Unix socket of this test SHOW gives 0; reset_val is what the session asked for.
func TestTheServerNoticesAHostWithoutPower(t *testing.T) {
	s, _, _ := seeded(t)
	for name, want := range map[string]string{"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"} {
		var got string
		require.NoError(t, s.Session().QueryRow(t.Context(), "SELECT reset_val FROM pg_settings WHERE name = $1 AND source = 'client'", name).Scan(&got), name)
		require.Equal(t, want, got, name)
	}
	require.Equal(t, 5*time.Second, s.Session().Config().ConnectTimeout)
}

func TestNoQueryHangs(t *testing.T) {
	s, _, dsn := seeded(t)
	for _, test := range []struct{ dsn, want string }{{dsn, "15s"}, {dsn + " statement_timeout=2000", "2s"}} {
		if test.dsn != dsn {
			s = open(t, test.dsn)
		}
		c, err := s.Pooled(t.Context())
		require.NoError(t, err)
		defer c.Release()
		var got string
		require.NoError(t, c.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&got))
		require.Equal(t, test.want, got)
	}
}

// On a server that answers before a commit is written, as the tests' does, a crash would undo a verdict that was told of.
func TestCommitsAreWrittenBeforeTheyAreTold(t *testing.T) {
	s, conn, _ := seeded(t)
	var servers, ours string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&servers))
	require.Equal(t, "off", servers)
	c, err := s.Pooled(t.Context())
	require.NoError(t, err)
	defer c.Release()
	require.NoError(t, c.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&ours))
	require.Equal(t, "on", ours)
}
