package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"retune/proxy"
)

// proxyCmd is the load balancer in a process of its own.
type proxyCmd struct {
	Listen  string         `type:"address" default:"127.0.0.1:8080" env:"RETUNE_LISTEN" help:"Address for the traffic."`
	Admin   string         `type:"address" default:"127.0.0.1:9901" env:"RETUNE_ADMIN" help:"Address of the admin API; outside of loopback it needs RETUNE_ADMIN_TOKEN."`
	Rules   string         `default:"decision-rules.yml" env:"RETUNE_RULES" type:"path" help:"The rule file; written with the default rules when it is missing."`
	Backend []string       `sep:"none" env:"RETUNE_BACKENDS" placeholder:"ID=URL[,weight=N]" help:"A backend, such as server-1=http://127.0.0.1:5001,weight=6. Repeatable; in the environment separated by spaces."`
	Trust   []netip.Prefix `env:"RETUNE_TRUST" placeholder:"PREFIX" help:"Peers whose X-Forwarded-* headers are believed, such as 127.0.0.0/8. Repeatable."`
	TLSCert string         `name:"tls-cert" env:"RETUNE_TLS_CERT" type:"path" placeholder:"FILE" help:"PEM certificate with its chain: the traffic listener speaks TLS 1.2 and up, and HTTP/2. Read again when the file changes."`
	TLSKey  string         `name:"tls-key" env:"RETUNE_TLS_KEY" type:"path" placeholder:"FILE" help:"PEM private key of --tls-cert."`
	HTTP2   bool           `name:"http2" env:"RETUNE_HTTP2" help:"Serve HTTP/2 without TLS (by prior knowledge) as well."`
	Engine  string         `default:"auto" enum:"auto,epoll,goroutines,net/http" env:"RETUNE_ENGINE" help:"What serves plain HTTP/1.1, one of ${enum}: auto is epoll on Linux and goroutines elsewhere; net/http costs four times as much."`

	HeadTimeout    time.Duration `default:"10s" env:"RETUNE_HEAD_TIMEOUT" help:"How long a client may take to send a request's head."`
	IdleTimeout    time.Duration `default:"75s" env:"RETUNE_IDLE_TIMEOUT" help:"How long a client's connection is kept between requests."`
	RequestTimeout time.Duration `default:"10s" env:"RETUNE_REQUEST_TIMEOUT" help:"How long a backend may take to begin its answer."`
	DrainTimeout   time.Duration `default:"15s" env:"RETUNE_DRAIN_TIMEOUT" help:"How long requests in flight may take to finish at the end."`
	HealthPath     string        `default:"/healthz" env:"RETUNE_HEALTH_PATH" help:"What the health check asks of a backend; any answer below 500 is life."`
	HealthInterval time.Duration `default:"2s" env:"RETUNE_HEALTH_INTERVAL" help:"Time between two health checks of a backend."`
	HealthTimeout  time.Duration `default:"3s" env:"RETUNE_HEALTH_TIMEOUT" help:"How long a health check may take."`

	AdminToken string `env:"RETUNE_ADMIN_TOKEN" secret:"" hidden:"" help:"Bearer token of the admin API; from the environment."`
	logFlags   `embed:""`
}

// Help is what --help says below the command's line.
func (*proxyCmd) Help() string {
	return "After a change of the rule file: `curl -X POST http://127.0.0.1:9901/alb/rules/reload`, which says what is wrong with it, " +
		"or SIGHUP, which logs it; rules that are not valid change nothing. SIGTERM and Ctrl-C drain."
}

// Run serves until it is interrupted. SIGHUP reads the rule file again.
func (c *proxyCmd) Run(ctx context.Context, o *output) error {
	backends, err := parseBackends(c.Backend)
	if err != nil {
		return usage("%w", err)
	}
	for name, d := range map[string]time.Duration{
		"--head-timeout": c.HeadTimeout, "--idle-timeout": c.IdleTimeout, "--request-timeout": c.RequestTimeout, "--drain-timeout": c.DrainTimeout,
		"--health-interval": c.HealthInterval, "--health-timeout": c.HealthTimeout,
	} {
		if d <= 0 {
			return usage("%s: %v is not more than 0", name, d)
		}
	}
	p, err := proxy.New(proxy.Config{
		Listen: c.Listen, Admin: c.Admin, Rules: c.Rules, Backends: backends, Trusted: c.Trust,
		TLSCert: c.TLSCert, TLSKey: c.TLSKey, HTTP2: c.HTTP2, Engine: proxy.Engine(c.Engine),
		HeadTimeout: c.HeadTimeout, IdleTimeout: c.IdleTimeout, RequestTimeout: c.RequestTimeout, DrainTimeout: c.DrainTimeout, AdminToken: c.AdminToken,
		Health: proxy.HealthConfig{Path: c.HealthPath, Interval: c.HealthInterval, Timeout: c.HealthTimeout},
		Build:  version, Log: c.logger(o.err),
	})
	if err != nil {
		return usage("%w", err)
	}
	hung := make(chan os.Signal, 1)
	signal.Notify(hung, syscall.SIGHUP)
	defer signal.Stop(hung)
	go func() {
		for {
			select {
			case <-hung:
				p.ReloadFile()
			case <-ctx.Done():
				return
			}
		}
	}()
	err = p.Run(ctx)
	if busy := new(proxy.ListenError); errors.As(err, &busy) {
		return unavailable(err)
	}
	return err
}

// parseBackends reads ID=URL[,weight=N] flags; several may stand in one, separated by spaces.
func parseBackends(flags []string) (list []proxy.BackendConfig, err error) {
	for _, f := range flags {
		for _, one := range strings.Fields(f) {
			b, e := parseBackend(one)
			err = errors.Join(err, e)
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no backend is given: say --backend server-1=http://127.0.0.1:5001,weight=6, once for each")
	}
	return list, err
}

func parseBackend(s string) (b proxy.BackendConfig, err error) {
	fail := func(what string) (proxy.BackendConfig, error) {
		return b, fmt.Errorf("--backend %q: %s; write it as server-1=http://127.0.0.1:5001,weight=6", s, what)
	}
	b.Weight = 1
	id, rest, ok := strings.Cut(s, "=")
	if !ok || id == "" {
		return fail("it has no id")
	}
	b.ID = id
	address, options, _ := strings.Cut(rest, ",")
	if b.URL, err = url.Parse(address); err != nil || b.URL.Host == "" {
		return fail("its URL is not one")
	}
	if options != "" {
		weight, ok := strings.CutPrefix(options, "weight=")
		if b.Weight, err = strconv.Atoi(weight); !ok || err != nil || b.Weight < 1 {
			return fail("after the comma stands no weight=N from 1")
		}
	}
	return b, nil
}
