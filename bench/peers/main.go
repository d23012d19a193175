//go:build linux

// Command peers measures Retune's proxy beside nginx and HAProxy on the machine it runs on: CPU time per request,
// throughput, latency and memory, as ratios from interleaved rounds of one run. `make bench-proxy` calls it.
//
// Each contender balances over the same four backends. With one thread the contender has core 0 and everything else
// core 1; with two nothing is pinned. nginx is measured before and after every two contenders, and a ratio is to the
// mean of its two neighbours: machines drift by more between minutes than contenders differ. What is printed are medians
// over rounds, the range of the ratios, and each goal as met or missed.
//
// The program is also its own backends and its own open load, as child processes: see backend.go and probe.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options is what the command line says, and what was found on the machine.
type options struct {
	names      []string // of scenarios
	rounds     int
	seconds    int           // of one run
	wait       time.Duration // for a quiet machine, before each run
	retune     string        // the program under test
	before     string        // another build of it; empty: none
	proxyFlags []string
	json       bool

	self, nginx, haproxy, wrk string // programs
	dir                       string // for the run's files
}

func main() {
	runtime.LockOSThread() // children end with the thread that started them: this one lives as long as we do
	if err := dispatch(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// dispatch is the whole program: the comparison, or one of its child processes.
func dispatch(args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) > 1 && args[0] == "backends":
		return serveBackends(args[1:])
	case len(args) == 4 && args[0] == "probe":
		rate, err := strconv.Atoi(args[2])
		seconds, bad := strconv.Atoi(args[3])
		if err = errors.Join(err, bad); err != nil || rate < 1 {
			return fmt.Errorf("probe ADDRESS RATE SECONDS: %w", err)
		}
		return runProbe(args[1], rate, time.Duration(seconds)*time.Second, stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return compare(ctx, o, stdout, stderr)
}

// parse reads the command line and finds the programs that are compared.
func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Func("scenario", "measure only this `NAME`; repeatable: "+strings.Join(scenarioNames(), ", "), func(s string) error {
		if !slices.Contains(scenarioNames(), s) {
			return fmt.Errorf("there are %s", strings.Join(scenarioNames(), ", "))
		}
		o.names = append(o.names, s)
		return nil
	})
	f.IntVar(&o.rounds, "rounds", 5, "measure each contender so often")
	f.IntVar(&o.seconds, "seconds", 3, "length of one measurement")
	f.DurationVar(&o.wait, "wait", 10*time.Second, "wait at most so long for a quiet machine before each measurement, and repeat a disturbed one")
	quick := f.Bool("quick", false, "one round of one second without waiting: a look, not evidence")
	f.StringVar(&o.retune, "retune", "bin/retune", "the `PROGRAM` to measure")
	f.StringVar(&o.before, "before", "", "another build of it, to measure beside it as 'before'")
	f.Func("proxy-flag", "one more `FLAG` for the proxy, such as --proxy-flag=--http2; repeatable", func(s string) error {
		o.proxyFlags = append(o.proxyFlags, s)
		return nil
	})
	form := f.String("o", "table", "how to print: table or json")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.rounds, o.seconds, o.wait = 1, 1, 0
	}
	o.json = *form == "json"
	if f.NArg() > 0 || o.rounds < 1 || o.seconds < 1 || !slices.Contains([]string{"table", "json"}, *form) {
		return o, errors.New("rounds and seconds are from 1, -o is table or json, and there are no other arguments: see -help")
	}
	return o, o.find()
}

// find finds all programs, and says how to get those that are not there.
func (o *options) find() (err error) {
	var missing []string
	for name, file := range map[string]*string{"nginx": &o.nginx, "haproxy": &o.haproxy, "wrk": &o.wrk, "taskset": new(string)} {
		if *file, err = lookUp(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s not found; on Debian and Ubuntu: apt-get install nginx haproxy wrk util-linux (and stop the services: systemctl disable --now nginx haproxy)", strings.Join(missing, ", "))
	}
	if runtime.NumCPU() < 2 {
		return errors.New("two cores are needed: one for the contender, one for the load and the backends")
	}
	for _, file := range []string{o.retune, o.before} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return fmt.Errorf("the program to measure: %w; make build brings it", err)
		}
	}
	o.self, err = os.Executable()
	return err
}

// compare measures the scenarios one after the other and prints each as it is done.
func compare(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	if o.dir, err = os.MkdirTemp("", "retune-peers-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	if err := errors.Join(os.Chmod(o.dir, 0o755), raiseFileLimit()); err != nil { // nginx's worker is another user
		return err
	}
	var results []result
	for _, s := range scenarios {
		if len(o.names) > 0 && !slices.Contains(o.names, s.name) {
			continue
		}
		fmt.Fprintf(stderr, "measuring %s\n", s.name)
		r, err := s.measured(ctx, o)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
		if !o.json {
			r.print(stdout)
		}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(results)
	}
	return nil
}

// measured is one scenario from the start of its processes to their end.
func (s scenario) measured(ctx context.Context, o options) (r result, err error) {
	st, err := newStand(ctx, s, o)
	defer st.close()
	if err != nil {
		return r, err
	}
	out := outcome{scenario: s, memory: map[string]held{}}
	if s.kind != idleMemory {
		if out.samples, err = st.rounds(ctx); err != nil {
			return r, err
		}
		return out.report(st), nil
	}
	for _, c := range st.contenders {
		if out.memory[c.name], err = st.idle(ctx, c); err != nil {
			return r, err
		}
	}
	return out.report(st), nil
}

// raiseFileLimit gives us and all children as many descriptors as may be had. Go raises its own limit by itself, but
// hands the old one on.
func raiseFileLimit() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.Cur = l.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
