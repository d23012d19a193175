// Package proxy is the load balancer: it serves requests, watches its backends, names the traffic's state and
// switches its algorithm by a rule file. It needs no database, no model and no orchestrator.
//
// A request's way, top to bottom:
//
//	wire      refuses what two parsers could read in two ways
//	forward   finds the client, sets the forwarding headers, streams both ways
//	retry     picks a backend; on a failure before the answer, once another one, within a budget
//	exchange  counts the attempt: in flight, latency, outcome, health
//
// Beside it run three loops: the control loop evaluates each window and switches algorithms (control.go), health
// checks probe the backends (health.go, probe.go), and the admin API reads and changes all of it (admin.go).
// They meet in one place, the route: an immutable picker over the backends that are available, swapped by an
// atomic pointer. No request waits for any of them.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"retune/proxy/balance"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

// Config is everything that a proxy is told. Zero durations mean the defaults in parentheses.
type Config struct {
	// Listen and Admin are the addresses of the traffic and the admin listener. A listener that is given ready
	// is used instead of its address.
	Listen, Admin                  string
	TrafficListener, AdminListener net.Listener

	Rules      string          // path of the rule file; written with the default rules when it is missing
	Backends   []BackendConfig // at the start; the admin API changes them
	Trusted    []netip.Prefix  // peers whose X-Forwarded-* headers are believed
	AdminToken string          // bearer token of the admin API; required when that is not on loopback
	HTTP2      bool            // serve HTTP/2 without TLS, by prior knowledge, as well

	RequestTimeout time.Duration // without progress until the answer's head has come (10 s)
	DrainTimeout   time.Duration // for requests in flight when the proxy ends (15 s)
	Health         HealthConfig

	Log *slog.Logger // slog.Default() when nil
}

// BackendConfig is one backend as it is configured. Weight is at least 1.
type BackendConfig struct {
	ID     string
	URL    *url.URL // scheme and host, no path
	Weight int
}

// Proxy is one load balancer. Make it with New.
type Proxy struct {
	config   Config
	log      *slog.Logger
	boot     string // names this start of the proxy
	started  time.Time
	meters   *meters
	pool     *pool
	control  *control
	forward  http.Handler
	idle     func()      // closes the idle connections to the backends
	draining atomic.Bool // Run is ending
}

// New checks the configuration and loads the rule file. Its error says what is wrong and how to mend it; for an
// invalid rule file it wraps *rules.Faults.
func New(c Config) (*Proxy, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Proxy{config: c, log: c.Log, boot: newBootID(), started: time.Now(), meters: newMeters()}
	file, err := openRules(c.Rules, p.log)
	if err != nil {
		return nil, err
	}
	window := traffic.NewWindow(balance.Now(), file.rules.Detection.Window, file.rules.Detection.LatencySlopeWindows)
	p.pool = newPool(window, c.Health, p.meters, p.log)
	for _, b := range c.Backends {
		if err := p.pool.add(b); err != nil {
			return nil, err
		}
	}
	p.control = newControl(p, window, file)
	p.forward, p.idle = newForwarder(p)
	return p, nil
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 15 * time.Second
	}
	c.Health = c.Health.withDefaults()
	return c
}

func (c Config) check() error {
	if c.Rules == "" {
		return errors.New("no rule file is named")
	}
	if c.AdminToken == "" && !loopback(c.adminAddress()) {
		return fmt.Errorf("the admin address %s is not on loopback: set RETUNE_ADMIN_TOKEN, or use 127.0.0.1", c.adminAddress())
	}
	return nil
}

func (c Config) adminAddress() string {
	if c.AdminListener != nil {
		return c.AdminListener.Addr().String()
	}
	return c.Admin
}

// loopback reports whether an address to listen on is reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ListenError says which listener could not be opened.
type ListenError struct {
	Flag string // "--listen" or "--admin"
	Err  error
}

// Error names the flag.
func (e *ListenError) Error() string { return fmt.Sprintf("%s: %v", e.Flag, e.Err) }

// Unwrap is the operating system's error.
func (e *ListenError) Unwrap() error { return e.Err }

func listen(given net.Listener, flag, address string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &ListenError{flag, err}
	}
	return ln, nil
}

// Run serves until ctx is done, then drains: /readyz fails, keep-alive ends, requests in flight finish within
// DrainTimeout, and what is left is cut. A *ListenError is a port that could not be had.
func (p *Proxy) Run(ctx context.Context) error {
	front, err := listen(p.config.TrafficListener, "--listen", p.config.Listen)
	if err != nil {
		return err
	}
	back, err := listen(p.config.AdminListener, "--admin", p.config.Admin)
	if err != nil {
		_ = front.Close()
		return err
	}
	p.log.Info("serving", "listen", front.Addr().String(), "admin", back.Addr().String(), "boot_id", p.boot)
	// What serves goes on while it drains; the loops beside it as well, so that health still counts.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, group := errgroup.WithContext(serving)
	traffic, admin := p.trafficServer(group), p.adminServer(group)
	g.Go(func() error {
		return serve(traffic, wire.NewListener(front, wire.Limits{Head: maxHead, HTTP2: p.config.HTTP2}))
	})
	g.Go(func() error { return serve(admin, back) })
	g.Go(func() error { p.control.run(group); return nil })
	g.Go(func() error { p.pool.run(group); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-group.Done():
		}
		p.drain(traffic)
		stop()
		return admin.Close()
	})
	err = g.Wait()
	p.idle()
	return err
}

func serve(s *http.Server, ln net.Listener) error {
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	return nil
}

// drain lets the requests in flight finish, tunnels too, and cuts what is left when the time is over.
func (p *Proxy) drain(s *http.Server) {
	p.draining.Store(true)
	p.log.Info("draining", "in_flight", p.pool.inFlight(), "at_most", p.config.DrainTimeout)
	bounded, cancel := context.WithTimeout(context.Background(), p.config.DrainTimeout)
	defer cancel()
	err := s.Shutdown(bounded)
	for err == nil && p.pool.inFlight() > 0 { // Shutdown does not wait for connections that switched protocols
		select {
		case <-bounded.Done():
			err = bounded.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		p.log.Warn("requests were cut off at the end of the drain", "in_flight", p.pool.inFlight())
		_ = s.Close()
	}
}

const (
	maxHead     = 64 << 10 // bytes of a request's head
	headTime    = 10 * time.Second
	idleTime    = 75 * time.Second // of a client's connection between requests
	adminBodies = 256 << 10        // bytes of an admin request's body, at most
)

func (p *Proxy) trafficServer(ctx context.Context) *http.Server {
	s := p.server(ctx, wire.Handler(p.forward, p.refuse))
	s.ConnContext = wire.ConnContext
	s.DisableGeneralOptionsHandler = true // "OPTIONS *" is for the backend to answer
	s.Protocols.SetUnencryptedHTTP2(p.config.HTTP2)
	return s
}

func (p *Proxy) adminServer(ctx context.Context) *http.Server {
	s := p.server(ctx, newAdmin(p))
	s.ReadTimeout = 2 * time.Minute // longer than a profile takes
	return s
}

// server has the bounds that both listeners share. Its requests end with ctx.
func (p *Proxy) server(ctx context.Context, h http.Handler) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ErrorLog:    slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	return s
}
