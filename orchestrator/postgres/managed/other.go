//go:build !unix

package managed

import (
	"context"
	"errors"
)

// Server is a running Postgres.
type Server struct{}

// Start is not possible on this system.
func Start(context.Context, Config) (*Server, error) {
	return nil, errors.New("running Postgres ourselves needs Linux or macOS: set DATABASE_URL to a server of your own")
}

// DSN is empty here.
func (s *Server) DSN() string { return "" }

// Done is nil here.
func (s *Server) Done() <-chan struct{} { return nil }

// Keep does nothing here.
func (s *Server) Keep(context.Context, func(string)) error { return nil }

// Stop does nothing here.
func (s *Server) Stop(context.Context) error { return nil }
