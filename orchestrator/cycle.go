package orchestrator

import (
	"encoding/json"
	"fmt"
	"time"

	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/switchlog"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
)

// Status is how far a cycle is, or how it ended.
type Status string

// The statuses of a cycle:
//
//	queued → baseline → generating → applying → settling → verifying → kept | rolled_back | inconclusive
//	                             └→ no_change
//
// or failed, cancelled or interrupted from any of them. Finished is the end of a calibration.
const (
	Queued       Status = "queued"
	Baseline     Status = "baseline"
	Generating   Status = "generating"
	Applying     Status = "applying"
	Settling     Status = "settling"
	Verifying    Status = "verifying"
	Kept         Status = "kept"
	RolledBack   Status = "rolled_back"
	Inconclusive Status = "inconclusive"
	NoChange     Status = "no_change" // the proposal equals the champion, or one that was judged worse: no trial was needed
	Finished     Status = "finished"
	Failed       Status = "failed"
	Cancelled    Status = "cancelled"
	Interrupted  Status = "interrupted" // its process ended; the champion was put back
)

// Ended reports whether nothing more will happen.
func (s Status) Ended() bool {
	switch s {
	case Queued, Baseline, Generating, Applying, Settling, Verifying:
		return false
	}
	return true
}

// Kind is what a cycle is for.
type Kind string

// The kinds. Both load the target, so only one of either runs at a time.
const (
	Tune      Kind = "tune"
	Calibrate Kind = "calibrate" // the champion against itself: how noisy is this machine
)

// Request is what somebody asks to be run.
type Request struct {
	Kind      Kind             `json:"kind"`
	Trigger   string           `json:"trigger"` // web | cli | api | schedule
	Actor     string           `json:"actor,omitempty"`
	Schedule  int64            `json:"schedule_id,omitempty"`
	Target    string           `json:"target"` // the target's name; one running cycle per target
	Profile   loadtest.Profile `json:"profile"`
	Generator string           `json:"generator"` // openai | local | file | replay
	Driver    loadtest.Driver  `json:"driver"`
	Scenarios []string         `json:"scenarios,omitempty"` // empty: the profile's own
	Limits    verdict.Limits   `json:"limits"`
	// Proposal is a rule file to be judged instead of a generator's answer (generator "file").
	Proposal string `json:"proposal,omitempty"`
	// Replay is a cassette that answers in a model's place (generator "replay").
	Replay string `json:"replay,omitempty"`
	// Force measures a proposal even when it changes nothing.
	Force bool `json:"force,omitempty"`
}

// Cycle is one turn of the feedback loop. It is a value that travels; the ledger holds its latest copy.
type Cycle struct {
	ID int64 `json:"id"`
	Request
	Status    Status           `json:"status"`
	Champion  int              `json:"champion,omitempty"`  // version in force at its start
	Candidate int              `json:"candidate,omitempty"` // version that it proposed; 0: none
	Evidence  json.RawMessage  `json:"evidence,omitempty"`
	Verdict   *verdict.Verdict `json:"verdict,omitempty"`
	// Why is one sentence: the verdict's reason, or what went wrong and what to do.
	Why string `json:"why,omitempty"`
	// Setup is what its figures depend on beside what was asked for; empty before it begins.
	Setup           Setup     `json:"setup,omitzero"`
	CancelRequested bool      `json:"cancel_requested,omitempty"`
	Owner           int64     `json:"-"` // the instance that runs it
	Created         time.Time `json:"created_at"`
	Started         time.Time `json:"started_at,omitzero"`
	Finished        time.Time `json:"finished_at,omitzero"`
}

// Step is one entry of a cycle's timeline.
type Step struct {
	Seq      int       `json:"seq"`
	Name     Status    `json:"name"`
	Started  time.Time `json:"started_at"`
	Finished time.Time `json:"finished_at,omitzero"`
	Detail   string    `json:"detail"` // one sentence
}

// Live is how a running cycle stands, saved about once a second.
type Live struct {
	CycleID   int64             `json:"cycle_id"`
	Status    Status            `json:"status"`
	Detail    string            `json:"detail"` // e.g. "pair 2 of 4, burst, candidate v7"
	Share     float64           `json:"share"`  // of the expected whole, in [0, 1]
	Remaining time.Duration     `json:"remaining_ns"`
	Load      loadtest.Progress `json:"load"`
	Arm       Arm               `json:"arm,omitempty"`
	At        time.Time         `json:"at"`
}

// Arm is which side of a comparison a run belongs to.
type Arm string

// The arms.
const (
	ArmBaseline  Arm = "baseline"
	ArmChampion  Arm = "champion"
	ArmCandidate Arm = "candidate"
	ArmSettle    Arm = "settle"
	ArmScreen    Arm = "screen" // a fixed algorithm, for the generator; or a proposal or the champion, in a tournament
)

// Run is one execution of one scenario under one rule version or one fixed algorithm.
type Run struct {
	ID        int64             `json:"id"`
	CycleID   int64             `json:"cycle_id"`
	Scenario  string            `json:"scenario"`
	HoldOut   bool              `json:"hold_out,omitempty"` // the scenario is held out: no generator learns of it
	Arm       Arm               `json:"arm"`
	Pair      int               `json:"pair,omitempty"` // 1-based; 0: not part of a pair
	Version   int               `json:"version,omitempty"`
	Proposal  int               `json:"proposal,omitempty"`  // of the cycle's tournament, in place of a version; 0: none
	Algorithm balance.Algorithm `json:"algorithm,omitempty"` // fixed; empty: by the version's rules
	Seed      uint64            `json:"seed"`
	Result    loadtest.Result   `json:"result"`
}

// RunSwitch is a switch of algorithm within a run.
type RunSwitch struct {
	Run int64 `json:"run_id"`
	switchlog.Switch
}

// RunDetection is how the traffic of a run was named, against the truth of the scenario's timeline.
type RunDetection struct {
	Run     int64 `json:"run_id"`
	Arm     Arm   `json:"arm"`
	Version int   `json:"version"`
	detection.Report
}

// who is what a run measures, in words.
func (r Run) who() string {
	if r.Proposal != 0 {
		return fmt.Sprintf("proposal %d", r.Proposal)
	}
	return fmt.Sprintf("v%d", r.Version)
}

// lot is what a run's seed is drawn by. A screening has its own: by the seeds by which a candidate was chosen it is not judged.
func (r Run) lot() string {
	if r.Arm == ArmScreen && r.Algorithm == "" {
		return screeningOf(r.Scenario)
	}
	return r.Scenario
}

func screeningOf(scenario string) string { return "screening of " + scenario }

// Pointer says which version is in force: the accepted one was proved (or chosen by hand), the desired one is
// what proxies should run now. They differ only during a trial.
type Pointer struct {
	Accepted   int        `json:"accepted"`
	Desired    int        `json:"desired"`
	Generation int64      `json:"generation"`
	Trial      int64      `json:"trial_cycle,omitempty"` // the cycle on trial; 0: none
	Proposal   int        `json:"proposal,omitempty"`    // of that cycle, which proxies run in place of Desired while it is screened; 0: none
	Applied    int        `json:"applied,omitempty"`     // the last that the target confirmed
	AppliedGen int64      `json:"applied_generation"`
	Hash       rules.Hash `json:"sha256"`         // of the desired version
	Newest     int        `json:"newest_version"` // that there is
}

// Move is a change of the pointer.
type Move struct {
	Kind     MoveKind `json:"kind"`
	Version  int      `json:"version"`
	Proposal int      `json:"proposal,omitempty"` // of the cycle, with MoveScreen; 0: the champion
	Cycle    int64    `json:"cycle_id,omitempty"`
	Actor    string   `json:"actor"`
	Reason   string   `json:"reason"`
}

// MoveKind is how the pointer changes.
type MoveKind string

// The moves. Screen leaves both as they are and names a proposal; Trial and Swap set desired alone, Accept (made by saving a cycle as kept) makes it accepted, Rollback and
// CrashRollback set it back, Manual sets both.
const (
	MoveSeed          MoveKind = "seed"
	MoveScreen        MoveKind = "screen" // a proposal of the cycle, or the champion beside it, in the screening of a tournament
	MoveTrial         MoveKind = "trial"
	MoveSwap          MoveKind = "swap" // between champion and candidate, within the trial that is on
	MoveAccept        MoveKind = "accept"
	MoveRollback      MoveKind = "rollback"
	MoveManual        MoveKind = "manual"
	MoveCrashRollback MoveKind = "crash_rollback"
)

// Activation is a move as it was recorded.
type Activation struct {
	Move
	Generation int64     `json:"generation"`
	Previous   int       `json:"previous"`
	Requested  time.Time `json:"requested_at"`
	Applied    time.Time `json:"applied_at,omitzero"`
}

// Schedule is a cycle that starts by itself.
type Schedule struct {
	ID        int64            `json:"id"`
	Name      string           `json:"name"`
	Cron      string           `json:"cron"` // five fields, or @daily and the like
	Zone      string           `json:"time_zone"`
	Profile   loadtest.Profile `json:"profile"`
	Generator string           `json:"generator"`
	Driver    loadtest.Driver  `json:"driver"`
	Missed    string           `json:"missed"` // run_once (default) | skip: what becomes of a run missed by more than an hour
	Enabled   bool             `json:"enabled"`
	NextRun   time.Time        `json:"next_run_at,omitzero"`
	LastRun   time.Time        `json:"last_run_at,omitzero"`
	LastCycle int64            `json:"last_cycle_id,omitempty"`
	LastNote  string           `json:"last_note,omitempty"` // e.g. why a run was skipped
	Created   time.Time        `json:"created_at"`
}
