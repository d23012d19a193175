package loadtest

import (
	"context"
	"errors"
)

// Config is where the drivers are looked for.
type Config struct {
	K6      string // the user's own k6 program, as RETUNE_K6 names it; "" looks in DataDir's bin, then on PATH
	DataDir string // its bin/k6 is looked at; "" for none
	Exe     string // the retune program, whose load command is the built-in driver's child; os.Executable() by default
	Scratch string // where a run's files go; the system's temporary directory by default
}

// Runner runs scenarios with one driver, each run in a child process of its own. Safe for concurrent use.
type Runner struct {
	Driver  Driver // K6 or Builtin, never Auto
	Version string // of the driver's program
	Why     string // one sentence: which driver it is and why
}

// Choose finds the driver: Auto takes k6 where a usable one is installed. An error says what is missing.
func Choose(ctx context.Context, d Driver, c Config) (*Runner, error) {
	return nil, errors.New("being built")
}

// Run runs the scenario's load: the shape as given, which the caller has scaled to the profile. progress (nil for
// none) is called about once a second, never after Run returns. The error is for a run that could not be made or was
// cancelled; a run that is no evidence is a Result with Invalid set.
func (r *Runner) Run(ctx context.Context, s Scenario, progress func(Progress)) (Result, error) {
	return Result{}, errors.New("being built")
}
