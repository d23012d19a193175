// Package managed runs a Postgres server of our own as a child process, for those who bring none.
package managed

import (
	"context"
	"errors"
)

// Config says where the server lives.
type Config struct {
	DataDir string // holds the cluster (DataDir/pg), the socket, the log and the lock; made when missing
	BinDir  string // folder of postgres and initdb (RETUNE_PG_BIN); empty: look for one
	Account string // who runs it when we are root; empty: the cluster's owner, retune, postgres or nobody
}

// Server is a running Postgres.
type Server struct{}

// Start makes a cluster where there is none, starts its server and waits until it takes connections.
func Start(ctx context.Context, c Config) (*Server, error) {
	return nil, errors.New("managed: not built yet")
}

// DSN is how to connect to the server's database.
func (s *Server) DSN() string { return "" }

// Done is closed when the server process has ended, asked to or not.
func (s *Server) Done() <-chan struct{} { return nil }

// Stop ends the server cleanly and waits for it. Safe to call twice.
func (s *Server) Stop(ctx context.Context) error { return nil }
