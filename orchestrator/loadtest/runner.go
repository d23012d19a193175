package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Config is where the drivers are looked for.
type Config struct {
	K6      string // the user's own k6 program, as RETUNE_K6 names it; "" looks in DataDir's bin, then on PATH
	DataDir string // its bin/k6 is looked at; "" for none
	Exe     string // the retune program, whose load command is the built-in driver's child; os.Executable() by default
	Scratch string // where a run's files go; the system's temporary directory by default
}

// program is what a driver runs as its child.
type program interface {
	// prepare readies a run in dir, an empty directory that is removed after it. s may gain what only the program
	// knows, such as the plan of a script of the user's own.
	prepare(ctx context.Context, s *Scenario, dir string) (command, error)
}

// Runner runs scenarios with one driver, each run in a child process of its own. Safe for concurrent use.
type Runner struct {
	Driver  Driver // K6 or Builtin, never Auto
	Version string // of the driver's program
	Why     string // one sentence: which driver it is and why

	program program
	scratch string
	patience
}

// patience is how long a driver is waited for.
type patience struct {
	silence time.Duration // without a byte from it
	overrun time.Duration // past the planned end and the last request's time-out
	grace   time.Duration // between the interrupt and the kill
}

var usualPatience = patience{silence: 15 * time.Second, overrun: 30 * time.Second, grace: graceTime}

// Choose finds the driver: Auto takes k6 where a usable one is installed. An error says what is missing.
func Choose(ctx context.Context, d Driver, c Config) (*Runner, error) {
	switch d {
	case K6:
		return newK6(ctx, c)
	case Builtin:
		return newBuiltin(c, "builtin, as asked for")
	case Auto, "":
		r, err := newK6(ctx, c)
		if err == nil || c.K6 != "" { // a k6 that was named and can't be used is not passed over in silence
			return r, err
		}
		return newBuiltin(c, fmt.Sprintf("builtin, since there is no usable k6: %v", err))
	}
	return nil, fmt.Errorf("no load driver %q; there are %s, %s and %s", d, Auto, K6, Builtin)
}

// defaultTimeout is a request's, where the scenario gives none.
const defaultTimeout = 5 * time.Second

// Run runs the scenario's load: the shape as given, which the caller has scaled to the profile. progress (nil for
// none) is called about once a second, never after Run returns. The error is for a run that could not be made or was
// cancelled; a run that is no evidence is a Result with Invalid set. The backends that the scenario's events touch are
// revived before the load and, whatever happens, before Run returns; one that can't be makes the run no evidence.
func (r *Runner) Run(ctx context.Context, s Scenario, progress func(Progress)) (Result, error) {
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	if err := s.validate(); err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp(r.scratch, "retune-run-")
	if err != nil {
		return Result{}, fmt.Errorf("making the run's directory: %w", err)
	}
	defer os.RemoveAll(dir)
	c, err := r.program.prepare(ctx, &s, dir)
	if err != nil {
		return Result{}, err
	}
	controls := s.touchedControls()
	before := Revive(ctx, controls) // a run before this one may have been killed
	result, err := r.measure(ctx, s, c, progress)
	after := Revive(context.WithoutCancel(ctx), controls)
	result.Invalid = slices.Concat(result.Invalid, unrevived("Before", before), unrevived("After", after))
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("scenario %s: %w", s.Shape.Name, context.Cause(ctx))
	}
	return result, err
}

// measure runs the child and makes a result of its stream.
func (r *Runner) measure(ctx context.Context, s Scenario, c command, progress func(Progress)) (Result, error) {
	in := stream{measured: newMeasurement(s.Shape.Duration(), s.Timeout), started: time.Now()}
	var said logs
	w := watcher{patience: r.patience, stream: &in, scenario: s, progress: progress}
	e, err := c.run(ctx, in.read, said.read, func() string { return w.watch(time.Now()) }, r.grace)
	if err != nil {
		return Result{}, err
	}
	result := in.measured.result(s)
	result.Driver, result.DriverVersion, result.ExitCode, result.Log = r.Driver, r.Version, e.code, said.lines()
	result.DriverCPU = e.cpu.Seconds() / max(e.wall.Seconds(), 1) // in less than a second, starting up is all there is
	result.Invalid = invalid(result, account{
		events: s.marks(), lines: in.lines.Load(), garbage: in.garbage.Load() + in.measured.strays, timed: in.measured.total.timed, backwards: in.measured.backwards, stopped: e.stopped, signal: e.signal,
	})
	return result, nil
}

// watcher looks after a running child.
type watcher struct {
	patience
	stream   *stream
	scenario Scenario
	progress func(Progress)
	told     time.Duration // when progress was last called, after the stream's start
}

// watch calls progress once a second and gives the reason to stop the child, if there is one.
func (w *watcher) watch(now time.Time) string {
	elapsed := now.Sub(w.stream.started)
	if w.progress != nil && elapsed-w.told >= time.Second {
		w.told = elapsed.Truncate(time.Second)
		w.progress(w.stream.measured.progress(now, elapsed, w.scenario))
	}
	planned := w.scenario.Shape.Duration()
	switch {
	case elapsed-time.Duration(w.stream.heard.Load()) > w.silence:
		return fmt.Sprintf("it was silent for %s", w.silence)
	case planned > 0 && elapsed > w.scenario.planned()+w.scenario.Timeout+w.overrun:
		return fmt.Sprintf("it went on for more than %s after its planned end", w.overrun)
	case w.stream.garbage.Load() > garbageFlood:
		return fmt.Sprintf("it wrote more than %d lines that could not be read", garbageFlood)
	}
	return ""
}
