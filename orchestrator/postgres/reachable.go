package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Reachable connects once and changes nothing; its error says what is wrong, without the password.
func Reachable(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}
