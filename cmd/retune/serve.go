package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"retune/orchestrator"
	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/managed"
	"retune/orchestrator/target"
	"retune/proxy/rules"
	"retune/web"
)

// orchestratorFlags is what the orchestrator needs to know, alone or within `up`.
type orchestratorFlags struct {
	Web         string            `type:"address" help:"Where the web UI and the API listen (default 127.0.0.1:8090, or PORT)." env:"RETUNE_WEB" placeholder:"ADDR"`
	AuthToken   string            `help:"Token that the web UI and the API ask for; needed on any address but loopback." env:"RETUNE_AUTH_TOKEN" secret:"" hidden:""`
	AdminToken  string            `help:"Token of the proxy's admin API." env:"RETUNE_ADMIN_TOKEN" secret:"" hidden:""`
	Data        string            `help:"Folder of everything that is kept (default /var/lib/retune for root, else the user's data folder)." env:"RETUNE_DATA_DIR" placeholder:"DIR" type:"path"`
	DatabaseURL string            `help:"Postgres to use; without one Retune runs its own." env:"DATABASE_URL" secret:"" hidden:""`
	PgBin       string            `help:"Folder of the postgres and initdb programs for Retune's own server." env:"RETUNE_PG_BIN" placeholder:"DIR"`
	K6          string            `name:"k6" help:"The k6 program; by default looked for in the data folder and on PATH." env:"RETUNE_K6" placeholder:"FILE"`
	ScenarioDir string            `help:"Folder of your own scenario shapes and k6 scripts." env:"RETUNE_SCENARIOS" placeholder:"DIR" type:"path"`
	Control     map[string]string `help:"Control endpoint of a backend, for scenarios that fail one: ID=URL. Repeatable." env:"RETUNE_CONTROL" placeholder:"ID=URL" mapsep:","`

	OpenaiApiKey  string `name:"openai-api-key" help:"Key for the openai generator." env:"OPENAI_API_KEY" secret:"" hidden:""`
	OpenaiBaseURL string `name:"openai-base-url" help:"Any OpenAI-compatible server; the generator openai then needs no key." env:"OPENAI_BASE_URL" placeholder:"URL"`
	OpenaiModel   string `name:"openai-model" help:"Model that the openai generator asks." env:"OPENAI_MODEL" default:"gpt-4o"`

	modelFlags
	logFlags
}

type serveCmd struct {
	orchestratorFlags
	ProxyAdmin []string `help:"Base URL of a proxy's admin API. Repeatable: all run the same rules." default:"http://127.0.0.1:9901" env:"RETUNE_PROXY_ADMIN"`
	Target     string   `help:"Base URL that load is sent to: the proxy's traffic listener, or what stands before several." default:"http://127.0.0.1:8080" env:"RETUNE_TARGET"`
}

// Run serves the orchestrator and its web UI until ctx ends.
func (c *serveCmd) Run(ctx context.Context, o *output) error {
	log := c.logger(o.err)
	s, err := c.open(ctx, log, c.ProxyAdmin, c.Target)
	if err != nil {
		return err
	}
	defer s.close()
	log.Info("the orchestrator serves", "web", "http://"+s.listener.Addr().String(), "proxies", strings.Join(c.ProxyAdmin, " "), "load goes to", c.Target)
	return s.run(ctx)
}

// serving is a running orchestrator and what it stands on.
type serving struct {
	log        *slog.Logger
	postgres   *managed.Server // nil: DATABASE_URL
	store      *postgres.Store
	target     *target.ALB
	converger  *orchestrator.Converger
	dispatcher *orchestrator.Dispatcher
	forecast   *orchestrator.Forecast
	calibrator *orchestrator.Calibrator
	web        *web.Server
	listener   net.Listener
}

// open brings up everything that run needs, in order; on an error what was brought up is taken down again.
func (f *orchestratorFlags) open(ctx context.Context, log *slog.Logger, admins []string, url string) (_ *serving, err error) {
	s := &serving{log: log}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if f.AuthToken == "" && !web.Loopback(f.webAddr()) {
		return nil, usage("serving the web UI on %s without a token would open it to the network: set RETUNE_AUTH_TOKEN, or listen on 127.0.0.1", f.webAddr())
	}
	if s.listener, err = listen(f.webAddr(), "--web"); err != nil {
		return nil, err
	}
	if s.target, err = target.New(admins, f.AdminToken); err != nil {
		return nil, usage("%w", err)
	}
	if err = s.openStore(ctx, f); err != nil {
		return nil, err
	}
	if err = s.seed(ctx); err != nil {
		return nil, err
	}
	return s, f.wire(s, url)
}

// listen takes an address, or says which flag to change when it can't.
func listen(addr, flag string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, unavailable(fmt.Errorf("listening on %s: %w; choose another address with %s", addr, err, flag))
	}
	return ln, nil
}

// webAddr is where the pages are served.
func (f *orchestratorFlags) webAddr() string {
	switch {
	case f.Web != "":
		return f.Web
	case webPort() != "":
		return net.JoinHostPort("127.0.0.1", webPort())
	}
	return web.DefaultAddr
}

// dataDir is the data folder, made if it is missing.
func (f *orchestratorFlags) dataDir() (string, error) {
	dir := f.Data
	if dir == "" {
		dir = defaultData()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the data folder: %w; name another with --data", err)
	}
	return dir, nil
}

// openStore connects to Postgres, the given one or our own.
func (s *serving) openStore(ctx context.Context, f *orchestratorFlags) error {
	dsn := f.DatabaseURL
	if dsn == "" {
		dir, err := f.dataDir()
		if err != nil {
			return err
		}
		s.postgres, err = managed.Start(ctx, managed.Config{DataDir: dir, BinDir: f.PgBin})
		if err != nil {
			return unavailable(fmt.Errorf("starting Postgres: %w", err))
		}
		dsn = s.postgres.DSN()
	}
	var err error
	if s.store, err = postgres.Open(ctx, dsn, postgres.Options{Target: siteName, Log: s.log}); err != nil {
		return unavailable(fmt.Errorf("opening the database: %w", err))
	}
	return nil
}

// siteName is the one target that this version of Retune tunes.
const siteName = "default"

// seed makes what the proxy runs v1 when the archive is empty.
func (s *serving) seed(ctx context.Context) error {
	_, err := s.store.Pointer(ctx)
	if !errors.Is(err, orchestrator.ErrNotFound) {
		return err
	}
	rs, highest, err := s.proxyRules(ctx)
	if err != nil {
		return err
	}
	if _, err := s.store.Seed(ctx, rs, highest); err != nil {
		return fmt.Errorf("storing v1: %w", err)
	}
	return nil
}

// proxyRules is what the proxy runs, and the highest generation that it was given; it may take a while to come up.
func (s *serving) proxyRules(ctx context.Context) (rs rules.RuleSet, highest int64, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for told := false; ; told = true {
		yaml, highest, err := s.target.FileRules(ctx)
		if err == nil {
			rs, err = rules.Parse("the proxy's rules", yaml)
			return rs, highest, err
		}
		if !errors.Is(err, target.ErrUnreachable) || ctx.Err() != nil {
			return rs, 0, unavailable(fmt.Errorf("asking the proxy for its rules: %w", err))
		}
		if !told {
			s.log.Info("waiting for the proxy, whose rules become v1", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// run serves until ctx ends or a part fails, then stops the parts from the outside in.
func (s *serving) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.store.Listen(ctx) })
	g.Go(func() error { return s.converger.Run(ctx) })
	g.Go(func() error { return s.dispatcher.Run(ctx) })
	g.Go(func() error { return s.web.Run(ctx) })
	if s.postgres != nil {
		g.Go(func() error {
			return s.postgres.Keep(ctx, func(said string) {
				s.log.Error("Postgres has ended by itself; starting it again", "said", said)
			})
		})
	}
	return g.Wait()
}

// close takes down what is up, Postgres last.
func (s *serving) close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.store != nil {
		s.store.Close()
	}
	if s.postgres != nil {
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		if err := s.postgres.Stop(ctx); err != nil {
			s.log.Warn("stopping Postgres", "error", err)
		}
	}
}

// checks is what /readyz answers.
func (s *serving) checks(ctx context.Context) map[string]error {
	_, proxy := s.target.Serving(ctx)
	return map[string]error{"postgres": s.store.Ping(ctx), "proxy": proxy, "rules": s.converger.Fault()}
}

// controls normalises the control endpoints.
func (f *orchestratorFlags) controls() map[string]string {
	all := map[string]string{}
	for id, url := range f.Control {
		if !strings.HasSuffix(url, "/control") {
			url = strings.TrimSuffix(url, "/") + "/control"
		}
		all[id] = url
	}
	return all
}
