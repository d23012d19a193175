package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Times of a connection. Streams move their own write deadline at each event.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	graceTimeout  = 5 * time.Second // for requests in flight when the server stops
)

// Server serves the pages and the API. Make it with New, then either Run it or serve its Handler.
type Server struct {
	Config
	echo *echo.Echo
	// stopping is closed when Run ends; streams end with it, so that they don't hold up the stop.
	stopping chan struct{}
}

// New checks the configuration and lays out the routes. It starts nothing.
func New(c Config) (*Server, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, echo: echo.New(), stopping: make(chan struct{})}
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.fail
	s.guard()
	s.routes()
	return s, nil
}

// routes is every page and probe; the API's are in api.go.
func (s *Server) routes() {
	e := s.echo
	e.GET("/healthz", s.healthz)
	e.GET("/readyz", s.readyz)
	e.GET("/metrics", echo.WrapHandler(s.Metrics))
}

// Handler is the whole of it without a listener.
func (s *Server) Handler() http.Handler { return s.echo }

// Run listens and serves until ctx ends, then ends the streams, lets requests in flight finish for up to five
// seconds, and returns nil. It can run once.
func (s *Server) Run(ctx context.Context) error {
	ln, err := s.listen(ctx)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: s.echo, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the pages on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	close(s.stopping)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTimeout)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		s.Log.Warn("requests were cut off at the stop", "err", err)
		err = srv.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the pages on %s: %w", ln.Addr(), err)
	}
	return nil
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	if s.Listener != nil {
		return s.Listener, nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening for the pages: %w", err)
	}
	return ln, nil
}
