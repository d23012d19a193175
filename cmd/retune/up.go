package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"retune/orchestrator/loadtest"
	"retune/web"
)

type upCmd struct {
	upFlags
}

// upFlags is everything on one machine: the orchestrator, and the demo backends and the proxy as children.
type upFlags struct {
	orchestratorFlags
	Listen      string   `type:"address" help:"Where the proxy takes traffic." default:"127.0.0.1:8080" env:"RETUNE_LISTEN"`
	Admin       string   `type:"address" help:"Where the proxy's admin API listens." default:"127.0.0.1:9901" env:"RETUNE_ADMIN"`
	Backend     []string `help:"Your own backends instead of the four demo ones: ID=URL[,weight=N]. Repeatable." env:"RETUNE_BACKENDS" sep:"none" placeholder:"ID=URL"`
	Demo        []string `help:"Where the four demo backends listen." default:"127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003,127.0.0.1:5004" env:"RETUNE_DEMO" placeholder:"ADDR"`
	TLSCert     string   `name:"tls-cert" hidden:"" env:"RETUNE_TLS_CERT"`
	NoCalibrate bool     `help:"Don't measure this machine's noise at a start at which it is not known, or stale."`
}

// Run starts everything, prints where the UI is, and stays until ctx ends.
func (c *upCmd) Run(ctx context.Context, o *output) error {
	log := c.logger(o.err)
	return c.up(ctx, log, o.err, func(ctx context.Context, s *serving) error {
		server := ""
		if addr := s.listener.Addr().String(); addr != web.DefaultAddr {
			server = " --server http://" + addr
		}
		fmt.Fprintf(o.err, "\n  Retune is up.\n\n    web UI   http://%s\n    traffic  http://%s\n    admin    http://%s\n\n  Press Run cycle there, or in another terminal: %s cycle --profile quick%s\n  Ctrl-C stops all of it; the history stays.\n\n",
			s.listener.Addr(), c.Listen, c.Admin, os.Args[0], server)
		<-ctx.Done()
		fmt.Fprintln(o.err, "\nStopping.")
		return nil
	})
}

// demoBackends are the four demo backends, the fastest first.
var demoBackends = []struct{ id, weight string }{{"server-1", "6"}, {"server-2", "3"}, {"server-3", "2"}, {"server-4", "1"}}

// up brings everything up, calls then, and takes everything down when it returns or a part fails.
func (f *upFlags) up(ctx context.Context, log *slog.Logger, stderr io.Writer, then func(context.Context, *serving) error) error {
	if len(f.Backend) == 0 && len(f.Demo) != len(demoBackends) {
		return usage("--demo wants %d addresses, got %d", len(demoBackends), len(f.Demo))
	}
	if f.TLSCert != "" {
		return usage("RETUNE_TLS_CERT is set, and `retune up` puts its load on plain HTTP: unset it, or start `retune proxy` and `retune serve` apart, serve with --target http://… of a listener without TLS")
	}
	data, err := f.dataDir()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := f.free(); err != nil {
		return err
	}
	children, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	defer func() { stop(); kept.Wait() }() // after the orchestrator: a trial's rollback needs the proxy
	for _, c := range f.children(data) {
		kept.Go(func() { c.keep(children, log, stderr) })
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	s, err := f.open(ctx, log, []string{"http://" + f.Admin}, "http://"+f.Listen)
	if err != nil {
		return err
	}
	defer s.close()
	if !f.NoCalibrate {
		s.calibrator.Refresh(ctx, loadtest.Quick, loadtest.Auto)
	}
	run, done := context.WithCancel(ctx)
	both, _ := errgroup.WithContext(run)
	both.Go(func() error { defer done(); return s.run(run) })
	both.Go(func() error { defer done(); return then(run, s) })
	return both.Wait()
}

// free reports the first address that somebody else has, and which flag changes it.
func (f *upFlags) free() error {
	want := [][2]string{{f.Listen, "--listen"}, {f.Admin, "--admin"}}
	if len(f.Backend) == 0 {
		for _, addr := range f.Demo {
			want = append(want, [2]string{addr, "--demo, or name your own backends with --backend"})
		}
	}
	for _, w := range want {
		ln, err := listen(w[0], w[1])
		if err != nil {
			return fmt.Errorf("%w. Is Retune running already?", err)
		}
		ln.Close()
	}
	return nil
}

// children are the processes beside the orchestrator, in the order in which they start.
func (f *upFlags) children(data string) []*child {
	rules := filepath.Join(data, "decision-rules.yml")
	if len(f.Backend) > 0 {
		return []*child{proxyChild(f.Listen, f.Admin, rules, f.logFlags, f.Backend)}
	}
	f.Control = demoControls(f.Demo)
	return []*child{demoChild(f.Demo), proxyChild(f.Listen, f.Admin, rules, f.logFlags, demoFlags(f.Demo))}
}

// demoChild is the demo backends at these addresses.
func demoChild(addrs []string, more ...string) *child {
	return &child{name: "backends", args: append([]string{"backends", "--listen", strings.Join(addrs, ",")}, more...), waitFor: addrs}
}

// proxyChild is a proxy over backends as its --backend takes them.
func proxyChild(listen, admin, rules string, log logFlags, backends []string) *child {
	c := &child{name: "proxy", waitFor: []string{admin, listen}}
	c.args = []string{"proxy", "--listen", listen, "--admin", admin, "--rules", rules, "--trust", "127.0.0.0/8",
		"--log-level", log.LogLevel.String(), "--log-format", log.LogFormat}
	for _, b := range backends {
		c.args = append(c.args, "--backend", b)
	}
	return c
}

// demoFlags are the demo backends at these addresses, as the proxy's --backend takes them.
func demoFlags(addrs []string) (all []string) {
	for i, b := range demoBackends {
		all = append(all, fmt.Sprintf("%s=http://%s,weight=%s", b.id, addrs[i], b.weight))
	}
	return all
}

// demoControls are their control endpoints.
func demoControls(addrs []string) map[string]string {
	all := map[string]string{}
	for i, b := range demoBackends {
		all[b.id] = "http://" + addrs[i] + "/control"
	}
	return all
}

// child is a process of ours that is started anew when it ends by itself.
type child struct {
	name    string
	exe     string // our own program when empty
	args    []string
	waitFor []string // addresses that it takes connections on once it is ready

	process atomic.Pointer[os.Process] // nil before the first start
}

// stopWithin is how long a child may take to drain.
const stopWithin = 20 * time.Second

// keep runs the child until ctx ends, then stops it and waits.
func (c *child) keep(ctx context.Context, log *slog.Logger, stderr io.Writer) {
	for {
		err := c.run(ctx, stderr)
		if ctx.Err() != nil {
			return
		}
		log.Error("a process ended by itself; starting it again", "process", c.name, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (c *child) run(ctx context.Context, stderr io.Writer) error {
	exe := c.exe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, exe, c.args...)
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches us alone; we stop them in order
	dieWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWithin
	ended := make(chan error, 1)
	go func() { // the death signal is bound to the thread that starts the child
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			c.process.Store(cmd.Process)
			err = cmd.Wait()
		}
		ended <- err
	}()
	return <-ended
}

// ready waits until the child takes connections.
func (c *child) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	for _, addr := range c.waitFor {
		for {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				conn.Close()
				break
			}
			select {
			case <-ctx.Done():
				if errors.Is(ctx.Err(), context.Canceled) { // we were told to stop
					return ctx.Err()
				}
				return unavailable(errors.New("the " + c.name + " did not come up on " + addr + "; its messages are above"))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
