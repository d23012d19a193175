// Package web is the browser's and the API's side: pages, live progress and a JSON API over the ledger.
package web

//go:generate go tool -modfile=../tools/go.mod templ generate

import (
	"context"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/proxy/steering"
	"retune/ruleversions"
)

// Starter starts and stops cycles, and changes the rules in force.
type Starter interface {
	// Enqueue queues a cycle; orchestrator.ErrBusy together with the one that is queued or running.
	Enqueue(ctx context.Context, r orchestrator.Request) (orchestrator.Cycle, error)
	Cancel(ctx context.Context, id int64, actor string) error
	// Propose stores a human's rule file as a version and makes it active; orchestrator.ErrTrial during a trial, ErrSame together
	// with the active version when that does the same already, unless forced.
	Propose(ctx context.Context, d ruleversions.Draft, force bool) (ruleversions.Version, error)
	// Activate makes an existing version active: a rollback, or a roll forward.
	Activate(ctx context.Context, version int, actor, reason string) error
}

// History is what was recorded.
type History interface {
	Pointer(ctx context.Context) (orchestrator.Pointer, error)
	Version(ctx context.Context, n int) (ruleversions.Version, error)
	Versions(ctx context.Context, limit, before int) ([]ruleversions.Version, error) // newest first; before 0: from the newest
	Activations(ctx context.Context, limit int, turns bool) ([]orchestrator.Activation, error)

	Cycle(ctx context.Context, id int64) (orchestrator.Cycle, error)
	Cycles(ctx context.Context, limit int, before int64) ([]orchestrator.Cycle, error)
	Steps(ctx context.Context, cycle int64) ([]orchestrator.Step, error)
	Live(ctx context.Context, cycle int64) (orchestrator.Live, error) // ErrNotFound before the first
	Proposals(ctx context.Context, cycle int64) ([]orchestrator.Proposal, error)
	Runs(ctx context.Context, cycle int64) ([]orchestrator.Run, error) // without series
	Run(ctx context.Context, id int64) (orchestrator.Run, error)       // with series and marks
	Calls(ctx context.Context, cycle int64) ([]advisor.Call, error)
	Spent(ctx context.Context, cycle int64) (advisor.Spend, error) // by the calls of a cycle; 0: of today (UTC)
	Decisions(ctx context.Context, cycle int64) ([]steering.Decision, error)
	// Detections are how the traffic of a cycle's runs was named, against its true states where those are known.
	Detections(ctx context.Context, cycle int64) ([]orchestrator.RunDetection, error)
	AllNoise(ctx context.Context) ([]orchestrator.KnownNoise, error)
	NoiseThen(ctx context.Context, cycle int64) (orchestrator.KnownNoise, error) // before a cycle's first pair
}

// Schedules is the cycles that start by themselves.
type Schedules interface {
	Schedules(ctx context.Context) ([]orchestrator.Schedule, error)
	Schedule(ctx context.Context, id int64) (orchestrator.Schedule, error)
	SaveSchedule(ctx context.Context, s orchestrator.Schedule) (orchestrator.Schedule, error) // id 0: a new one
	DeleteSchedule(ctx context.Context, id int64) error
	RunNow(ctx context.Context, id int64, actor string) (orchestrator.Cycle, error)
}
