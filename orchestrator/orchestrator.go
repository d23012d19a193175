// Package orchestrator is the feedback loop: it measures the champion, has a candidate proposed, tries it, and
// keeps it or puts the champion back.
//
// The parts: Tuner runs one cycle from top to bottom. Dispatcher claims queued cycles, one at a time per target, and
// cancels them. Converger keeps the target on the desired version. Queue.Reclaim ends cycles whose process died. Nothing
// here knows Postgres or the web.
package orchestrator

import (
	"context"
	"errors"
	"time"

	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// What a caller may have to tell apart.
var (
	ErrStale    = errors.New("the version that this was measured against is not the active one any more")
	ErrTrial    = errors.New("another trial is in force")
	ErrBusy     = errors.New("a cycle is already queued or running")
	ErrNotFound = errors.New("not found")
	ErrLost     = errors.New("this cycle is owned by another instance now")
	ErrInvalid  = errors.New("invalid")
	ErrSame     = errors.New("the rules in force do the same already")
)

// Target is what rules are applied to: one proxy or several that run the same rules.
type Target interface {
	// Apply brings every proxy to the version; nil only when each confirms it by hash and generation. Idempotent.
	// generation is the pointer's; 0 is by hand, whatever the pointer says: for when the ledger is out of reach.
	// trial keeps the rules out of the proxies' files: one that restarts during a trial runs the champion.
	Apply(ctx context.Context, v ruleversions.Version, generation int64, trial bool) error
	// Serving is what every proxy runs. An error when they can't be asked or differ.
	Serving(ctx context.Context) (rules.Active, error)
	// SetMode sets adaptive or fixed mode, resets and time scale on every proxy.
	SetMode(ctx context.Context, m steering.Mode) error
}

// Journal is what the proxies recorded.
type Journal interface {
	Decisions(ctx context.Context, since time.Time) ([]steering.Decision, error)
	Snapshots(ctx context.Context, since time.Time) ([]traffic.Snapshot, error)
}

// LoadRunner runs a scenario's load. progress is called about once a second, never after Run returns.
// The error is for a run that could not be made; a run that is no evidence is a Result with Invalid set.
type LoadRunner interface {
	Run(ctx context.Context, s loadtest.Scenario, progress func(loadtest.Progress)) (loadtest.Result, error)
}

// Advisor proposes rule sets.
type Advisor interface {
	// Proposals answers with up to n rule sets, no two of which do the same. An error means that there is none; the calls that
	// were made come back all the same.
	Proposals(ctx context.Context, e advisor.Evidence, n int) (advisor.Proposals, error)
}

// Ledger holds what is in force, and the cycles. Its writes are durable when they return.
type Ledger interface {
	// Pointer says which version is in force; ErrNotFound before the first version.
	Pointer(ctx context.Context) (Pointer, error)
	Version(ctx context.Context, n int) (ruleversions.Version, error)
	// Append makes a draft the next version. ErrStale when its parent is not the accepted version.
	Append(ctx context.Context, d ruleversions.Draft) (ruleversions.Version, error)
	// Move changes the pointer and records it. ErrTrial when another cycle's trial is on, ErrLost when m.Cycle is not running
	// here, ErrStale for a trial when the cycle's champion is not the accepted version any more.
	Move(ctx context.Context, m Move) (Pointer, error)
	// Applied records that the target confirmed the generation.
	Applied(ctx context.Context, version int, generation int64) error
	// Save stores the cycle's latest copy; a change of status begins a new step. detail is one sentence for the timeline.
	// With status Kept it also makes the candidate the accepted version, in the same transaction.
	// ErrLost when it is not this instance's any more.
	Save(ctx context.Context, c Cycle, detail string) error
}

// Notebook keeps what was measured and said.
type Notebook interface {
	SaveRun(ctx context.Context, r Run) (id int64, err error)
	// SetAside adds a reason why a stored run is no evidence.
	SetAside(ctx context.Context, run int64, why string) error
	SaveCalls(ctx context.Context, cycle int64, version int, calls []advisor.Call) error
	// SaveJournal stores decisions and snapshots; reading the same ones again stores nothing twice. run 0: not part of a run.
	SaveJournal(ctx context.Context, cycle, run int64, d []steering.Decision, s []traffic.Snapshot) error
	// SaveDetection stores how the traffic of a run was named, over what was stored of it before.
	SaveDetection(ctx context.Context, run int64, r detection.Report) error
	SaveLive(ctx context.Context, l Live) error
	// Noise is what A/A calibration and earlier cycles know of this machine, under a profile and driver.
	Noise(ctx context.Context, profile loadtest.Profile, driver loadtest.Driver) ([]verdict.Noise, error)
	// Attempts are earlier candidates and how they were judged, newest first.
	Attempts(ctx context.Context, limit int) ([]advisor.Attempt, error)
	// Judged are those of all earlier candidates that do what these rules do and got a verdict, newest first.
	Judged(ctx context.Context, rs rules.RuleSet) ([]advisor.Attempt, error)
	// SaveProposals stores a cycle's proposals as they stand, in place of what was stored of them.
	SaveProposals(ctx context.Context, cycle int64, all []Proposal) error
}

// Queue is the cycles that wait.
type Queue interface {
	// Claim takes the oldest queued cycle for this instance; false when there is none or one is running on its target.
	Claim(ctx context.Context) (Cycle, bool, error)
	// Reclaim ends the cycles of instances that are gone: as interrupted, or cancelled where that was asked for. It undoes
	// their trials, calls cleanUp while nothing else can run on their target, and says where that failed in their reason.
	// To be called only while no cycle runs here.
	Reclaim(ctx context.Context, cleanUp func(context.Context, []Cycle) error) ([]Cycle, error)
	// CancelRequested reports whether somebody asked for the cycle to be cancelled.
	CancelRequested(ctx context.Context, id int64) (bool, error)
	// FireDue queues a cycle for each schedule that is due at now, and moves it to its next time, in one transaction.
	FireDue(ctx context.Context, now time.Time) ([]Cycle, error)
	// Wake is signalled when there may be something to claim or to cancel. A tick of 2 s is the net below it.
	Wake() <-chan struct{}
	// Lost is closed when this instance's claim on what it runs now is gone. Take it right after Claim.
	Lost() <-chan struct{}
}
