// Command retune is a load balancer that benchmarks itself and rewrites its own rules: one binary with a
// sub-command per role.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes; scripts rely on them.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitRolledBack   = 3
	exitInconclusive = 4
	exitUnavailable  = 5 // what the command itself needs is out of reach: Postgres, proxy, orchestrator; a cycle that lacked something has failed
	exitInterrupted  = 130
)

// exitError ends the process with a code other than 1. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// unavailable marks an error as "something that we need is out of reach".
func unavailable(err error) error { return &exitError{exitUnavailable, err} }

// usage marks an error as the caller's.
func usage(format string, a ...any) error { return &exitError{exitUsage, fmt.Errorf(format, a...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(exitCode(err, interrupted))
}

func exitCode(err error, interrupted bool) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case interrupted && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// cli is every sub-command; each stands in a file of its own name.
type cli struct {
	Up       upCmd       `cmd:"" help:"Run everything on this machine: Postgres, demo backends, proxy, orchestrator and web UI."`
	Cycle    cyclesCmd   `cmd:"" help:"Run one feedback cycle and wait for its verdict; list, watch and cancel cycles."`
	Rules    rulesCmd    `cmd:"" help:"List, show, compare, apply and roll back rule versions."`
	Schedule scheduleCmd `cmd:"" help:"List, add and remove cycles that start by themselves."`
	Bench    benchCmd    `cmd:"" help:"Measure fixed algorithms and rule files side by side."`
	Sim      simCmd      `cmd:"" help:"Simulate the ten algorithms under the reference loads, beside the limit: bench in a second."`
	Doctor   doctorCmd   `cmd:"" help:"Check what Retune needs, and how noisy this machine is."`
	Config   configCmd   `cmd:"" help:"Print every setting, its value and where it comes from."`
	Proxy    proxyCmd    `cmd:"" help:"Run the load balancer."`
	Backends backendsCmd `cmd:"" help:"Run demo backends whose speed and health a scenario can turn."`
	Serve    serveCmd    `cmd:"" help:"Run the orchestrator and its web UI."`
	Load     loadCmd     `cmd:"" hidden:"" help:"Run one scenario's load and write its stream to stdout; the built-in driver's child process."`
	Health   healthCmd   `cmd:"" hidden:"" help:"Ask a role whether it is well; exit 0 or not."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// run is the whole program as a function, for main and for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fromEnv, err := loadEnvFile()
	if err != nil {
		fmt.Fprintln(stderr, "retune:", err)
		return &exitError{exitUsage, err}
	}
	file, err := readConfigFile()
	if err != nil {
		fmt.Fprintln(stderr, "retune:", err)
		return &exitError{exitUsage, err}
	}
	file.fromEnv = fromEnv
	var c cli
	exited := -1
	parser, err := newParser(&c, stdout, stderr, kong.Exit(func(code int) { exited = code }),
		kong.Resolvers(file), kong.Bind(file), kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		return err
	}
	unsetEmpty(parser)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if exited >= 0 { // --help
		return nil
	}
	if err != nil {
		fmt.Fprintf(stderr, "retune: %v\n", err)
		return &exitError{exitUsage, err}
	}
	// The proxy reads its rules again instead; whoever started us by nohup wants it ignored.
	if k.Command() != "proxy" && !signal.Ignored(syscall.SIGHUP) {
		hung, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
		k.BindTo(hung, (*context.Context)(nil))
	}
	err = k.Run()
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, "retune:", err)
	}
	return err
}

// newParser is the command line as kong reads it; tests read manuals and manifests with it.
func newParser(c *cli, stdout, stderr io.Writer, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(options, kong.Name("retune"), kong.Writers(stdout, stderr), kong.UsageOnError(), kong.NamedMapper("address", kong.MapperFunc(decodeAddress)),
		kong.Description("A load balancer that benchmarks itself and rewrites its own rules."),
		kong.Bind(&output{stdout, stderr}))...)
}

// decodeAddress reads where to listen; whether anybody can is found out later.
func decodeAddress(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("address", &s); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		return fmt.Errorf("%q is no address to listen at: want HOST:PORT, such as 127.0.0.1:8080", s)
	}
	target.SetString(s)
	return nil
}

// output is where a sub-command writes: data to out, all else to err.
type output struct{ out, err io.Writer }

type versionCmd struct{}

// version is set by the release build.
var version = "dev"

func (versionCmd) Run(o *output) error {
	_, err := fmt.Fprintln(o.out, "retune", version)
	return err
}
