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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

type upCmd struct {
	upFlags
}

// upFlags is everything on one machine: the orchestrator, and the demo backends and the proxy as children.
type upFlags struct {
	orchestratorFlags
	Listen      string   `help:"Where the proxy takes traffic." default:"127.0.0.1:8080" env:"RETUNE_LISTEN"`
	Admin       string   `help:"Where the proxy's admin API listens." default:"127.0.0.1:9901" env:"RETUNE_ADMIN"`
	Backend     []string `help:"Your own backends instead of the four demo ones: ID=URL[,weight=N]. Repeatable." env:"RETUNE_BACKENDS" sep:"none" placeholder:"ID=URL"`
	Demo        []string `help:"Where the four demo backends listen." default:"127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003,127.0.0.1:5004" env:"RETUNE_DEMO" placeholder:"ADDR,…"`
	NoCalibrate bool     `help:"Don't measure this machine's noise at the first start."`
}

// Run starts everything, prints where the UI is, and stays until ctx ends.
func (c *upCmd) Run(ctx context.Context, o *output) error {
	log := c.logger(o.err)
	return c.up(ctx, log, o.err, func(ctx context.Context, s *serving) error {
		fmt.Fprintf(o.err, "\n  Retune is up.\n\n    web UI   http://%s\n    traffic  http://%s\n    admin    http://%s\n\n  Press Run cycle there, or in another terminal: %s cycle --profile quick\n  Ctrl-C stops all of it; the history stays.\n\n",
			s.listener.Addr(), c.Listen, c.Admin, os.Args[0])
		<-ctx.Done()
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
	if err := f.free(); err != nil {
		return err
	}
	children, stop := context.WithCancel(context.WithoutCancel(ctx))
	g := &errgroup.Group{}
	defer func() { stop(); g.Wait() }() // after the orchestrator: a trial's rollback needs the proxy
	for _, c := range f.children() {
		g.Go(func() error { return c.keep(children, log, stderr) })
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	s, err := f.open(ctx, log, []string{"http://" + f.Admin}, "http://"+f.Listen)
	if err != nil {
		return err
	}
	defer s.close()
	if s.firstStart && !f.NoCalibrate {
		s.selfCalibrate(ctx)
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
func (f *upFlags) children() (all []*child) {
	data, err := f.dataDir()
	if err != nil {
		data = os.TempDir()
	}
	proxy := []string{"proxy", "--listen", f.Listen, "--admin", f.Admin, "--rules", filepath.Join(data, "decision-rules.yml"), "--trust", "127.0.0.0/8", "--log-level", f.LogLevel.String()}
	if len(f.Backend) == 0 {
		f.Control = map[string]string{}
		for i, b := range demoBackends {
			proxy = append(proxy, "--backend", fmt.Sprintf("%s=http://%s,weight=%s", b.id, f.Demo[i], b.weight))
			f.Control[b.id] = "http://" + f.Demo[i] + "/control"
		}
		all = append(all, &child{name: "backends", args: []string{"backends", "--listen", strings.Join(f.Demo, ",")}, waitFor: f.Demo})
	}
	for _, b := range f.Backend {
		proxy = append(proxy, "--backend", b)
	}
	var env []string
	if f.AdminToken != "" {
		env = append(env, "RETUNE_ADMIN_TOKEN="+f.AdminToken)
	}
	return append(all, &child{name: "proxy", args: proxy, env: env, waitFor: []string{f.Admin, f.Listen}})
}

// child is a process of ours that is started anew when it ends by itself.
type child struct {
	name    string
	args    []string
	env     []string // beside our own
	waitFor []string // addresses that it takes connections on once it is ready
}

// stopWithin is how long a child may take to drain.
const stopWithin = 20 * time.Second

// keep runs the child until ctx ends, then stops it and waits.
func (c *child) keep(ctx context.Context, log *slog.Logger, stderr io.Writer) error {
	for ctx.Err() == nil {
		err := c.run(ctx, stderr)
		if ctx.Err() != nil {
			return nil
		}
		log.Error("a process ended by itself; starting it again", "process", c.name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (c *child) run(ctx context.Context, stderr io.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches us alone; we stop them in order
	dieWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWithin
	ended := make(chan error, 1)
	go func() { // the death signal is bound to the thread that starts the child
		runtime.LockOSThread()
		ended <- cmd.Run()
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
				return unavailable(errors.New("the " + c.name + " did not come up on " + addr + "; its messages are above"))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
