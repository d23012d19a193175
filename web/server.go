package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

// Times of a connection. Streams move their own write deadline at each event.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	writeTimeout  = time.Minute // a cycle may have to wait for a calibration to step aside
	idleTimeout   = 2 * time.Minute
	graceTimeout  = 5 * time.Second // for requests in flight when the server stops
)

// Server serves the pages and the API. Make it with New, then either Run it or serve its Handler.
type Server struct {
	Config
	echo *echo.Echo
	api  huma.API
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
	s.newAPI()
	return s, nil
}

// routes is every page and probe; the API's are in api.go.
func (s *Server) routes() {
	e := s.echo
	e.GET("/", s.home)

	e.GET("/cycles", s.cycles)
	e.POST("/cycles", s.startCycle)
	e.GET("/cycles/:id", s.cycle)
	e.GET("/cycles/:id/events", s.cycleEvents)
	e.GET("/cycles/:id/series.json", s.cycleSeries)
	e.GET("/cycles/:id/decisions", s.cycleDecisions)
	e.GET("/cycles/:id/detection", s.cycleDetection)
	e.GET("/cycles/:id/cancel", s.askCancel)
	e.POST("/cycles/:id/cancel", s.cancelCycle)

	e.GET("/runs/:id", s.run)
	e.GET("/runs/:id/series.json", s.runSeries)
	e.GET("/runs/:id/series.csv", s.runCSV)

	e.GET("/versions", s.versions)
	e.POST("/versions", s.applyProposal)
	e.GET("/versions/propose", s.proposeForm)
	e.POST("/versions/propose", s.checkProposal)
	e.GET("/versions/diff", s.choosePair)
	e.GET("/versions/diff/:pair", s.diffPair)
	e.GET("/versions/:id", s.version)
	e.GET("/versions/:id/yaml", s.versionYAML)
	e.GET("/versions/:id/activate", s.askActivate)
	e.POST("/versions/:id/activate", s.activate)

	e.GET("/schedules", s.schedules)
	e.POST("/schedules", s.addSchedule)
	e.POST("/schedules/:id/run", s.runSchedule)
	e.POST("/schedules/:id/pause", s.pauseSchedule)
	e.POST("/schedules/:id/resume", s.resumeSchedule)
	e.GET("/schedules/:id/delete", s.askDeleteSchedule)
	e.POST("/schedules/:id/delete", s.deleteSchedule)

	e.GET("/about", s.about)
	e.GET("/static/*", s.static)
	e.GET("/favicon.ico", s.favicon)
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
		s.Log.Warn("requests were cut off at the stop", "err", errors.Join(err, srv.Close()))
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
