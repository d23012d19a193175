// Package proxy is the load balancer: it serves requests, watches its backends, names the traffic's state and
// switches its algorithm by a rule file. It needs no database, no model and no orchestrator.
//
// A request's way, top to bottom:
//
//	wire      refuses what two parsers could read in two ways
//	lane      plain HTTP/1.1 on an engine of our own (call, loop, goroutines); forward has the rest, on net/http
//	choose    picks a backend; on a failure before the answer, once another one, within a budget
//	exchange  counts the attempt: in flight, latency, outcome, health
//
// Beside it run three loops: the control loop evaluates each window and switches algorithms (control.go), health
// checks probe the backends (health.go, probe.go), and the admin API reads and changes all of it (admin.go).
// They meet in one place, the route: an immutable picker over the backends that are available, swapped by an
// atomic pointer. No request waits for any of them. serve.go starts them all, and waits for their end.
package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
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
	TLSCert    string          // PEM file: the traffic listener speaks TLS, and HTTP/2 where the client does; read again when it changes
	TLSKey     string          // PEM file of its private key
	HTTP2      bool            // serve HTTP/2 without TLS, by prior knowledge, as well
	Engine     Engine          // of the fast lane (EngineAuto)

	HeadTimeout    time.Duration // from a connection, or a head's first byte, to its last (10 s)
	IdleTimeout    time.Duration // of a client's connection between requests (75 s)
	RequestTimeout time.Duration // without progress until the answer's head has come, and in a body of announced length (10 s)
	DrainTimeout   time.Duration // for requests in flight when the proxy ends (15 s)
	Health         HealthConfig

	Build string       // of this program, which /alb/status tells
	Log   *slog.Logger // slog.Default() when nil
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
	choose   *chooser
	forward  http.Handler
	cert     *certificate // of the traffic listener; nil: no TLS
	idle     func()       // closes the idle connections to the backends
	draining atomic.Bool  // Run is ending
}

// New checks the configuration and loads the rule file. Its error says what is wrong and how to mend it; for an
// invalid rule file it wraps *rules.Faults.
func New(c Config) (*Proxy, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Proxy{config: c, log: c.Log, boot: newBootID(), started: time.Now(), meters: newMeters()}
	var err error
	if c.TLSCert != "" {
		if p.cert, err = openCertificate(c.TLSCert, c.TLSKey, p.log); err != nil {
			return nil, err
		}
	}
	file, err := openRules(c.Rules, p.log) // last: it may write one
	if err != nil {
		return nil, err
	}
	window := traffic.NewWindow(balance.Now(), file.rules.Detection.Window, file.rules.Detection.LatencySlopeWindows)
	p.pool = newPool(window, c.Health, p.meters, p.log)
	for _, b := range c.Backends {
		p.pool.add(b)
	}
	p.control = newControl(p, window, file)
	p.choose = &chooser{p.pool, p.pool.budget}
	p.forward, p.idle = newForwarder(p)
	return p, nil
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	orElse(&c.HeadTimeout, headTime)
	orElse(&c.IdleTimeout, idleTime)
	orElse(&c.RequestTimeout, 10*time.Second)
	orElse(&c.DrainTimeout, 15*time.Second)
	orElse(&c.Engine, EngineAuto)
	c.Health = c.Health.withDefaults()
	return c
}

func (c Config) check() error {
	if c.Rules == "" {
		return errors.New("no rule file is named")
	}
	if !slices.Contains([]Engine{"", EngineAuto, EngineEpoll, EngineGoroutines, EngineNetHTTP}, c.Engine) {
		return fmt.Errorf("there is no engine %q", c.Engine)
	}
	if c.Engine == EngineEpoll && runtime.GOOS != "linux" {
		return fmt.Errorf("the engine %s needs Linux: take %s", EngineEpoll, EngineAuto)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key belong together: name both files, or neither")
	}
	seen := map[string]bool{}
	for _, b := range c.Backends {
		if err := b.check(); err != nil {
			return err
		}
		if seen[b.ID] {
			return fmt.Errorf("backend %s is named twice: give each an id of its own", b.ID)
		}
		seen[b.ID] = true
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
