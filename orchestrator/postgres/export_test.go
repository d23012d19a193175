package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Session is the instance's session, which is Listen's alone while that runs.
func (s *Store) Session() *pgx.Conn { return s.session.conn }

// Pooled is one of the pool's connections.
func (s *Store) Pooled(ctx context.Context) (*pgxpool.Conn, error) { return s.pool.Acquire(ctx) }

// Silence is after which a session is ended.
const Silence = silence
