package postgres

import (
	"context"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// Seed makes the first version and puts it in force; it changes nothing when there is one.
func (s *Store) Seed(ctx context.Context, set rules.RuleSet) (orchestrator.Pointer, error) {
	return orchestrator.Pointer{}, errUnbuilt
}

func (s *Store) Pointer(ctx context.Context) (orchestrator.Pointer, error) {
	return orchestrator.Pointer{}, errUnbuilt
}

func (s *Store) Version(ctx context.Context, n int) (ruleversions.Version, error) {
	return ruleversions.Version{}, errUnbuilt
}

func (s *Store) Versions(ctx context.Context, limit, before int) ([]ruleversions.Version, error) {
	return nil, errUnbuilt
}

func (s *Store) Append(ctx context.Context, d ruleversions.Draft) (ruleversions.Version, error) {
	return ruleversions.Version{}, errUnbuilt
}

func (s *Store) Move(ctx context.Context, m orchestrator.Move) (orchestrator.Pointer, error) {
	return orchestrator.Pointer{}, errUnbuilt
}

func (s *Store) Applied(ctx context.Context, version int, generation int64) error { return errUnbuilt }

func (s *Store) Save(ctx context.Context, c orchestrator.Cycle, detail string) error {
	return errUnbuilt
}

func (s *Store) SaveRun(ctx context.Context, r orchestrator.Run) (int64, error) { return 0, errUnbuilt }

func (s *Store) SaveCalls(ctx context.Context, cycle int64, version int, calls []advisor.Call) error {
	return errUnbuilt
}

func (s *Store) SaveJournal(ctx context.Context, cycle, run int64, d []steering.Decision, snaps []traffic.Snapshot) error {
	return errUnbuilt
}

func (s *Store) SaveLive(ctx context.Context, l orchestrator.Live) error { return errUnbuilt }

func (s *Store) Noise(ctx context.Context, p loadtest.Profile, d loadtest.Driver) ([]verdict.Noise, error) {
	return nil, errUnbuilt
}

func (s *Store) Attempts(ctx context.Context, limit int) ([]advisor.Attempt, error) {
	return nil, errUnbuilt
}

func (s *Store) Claim(ctx context.Context) (orchestrator.Cycle, bool, error) {
	return orchestrator.Cycle{}, false, errUnbuilt
}

func (s *Store) Reclaim(ctx context.Context) ([]orchestrator.Cycle, error) { return nil, errUnbuilt }

func (s *Store) CancelRequested(ctx context.Context, id int64) (bool, error) {
	return false, errUnbuilt
}

func (s *Store) FireDue(ctx context.Context, now time.Time) ([]orchestrator.Cycle, error) {
	return nil, errUnbuilt
}

// Enqueue queues a cycle; orchestrator.ErrBusy together with the one that is queued or running.
func (s *Store) Enqueue(ctx context.Context, r orchestrator.Request) (orchestrator.Cycle, error) {
	return orchestrator.Cycle{}, errUnbuilt
}

// Cancel asks for a cycle to be cancelled; one that is still queued ends at once.
func (s *Store) Cancel(ctx context.Context, id int64, actor string) error { return errUnbuilt }

// Propose stores a human's rule file as a version and makes it active; orchestrator.ErrTrial during a trial.
func (s *Store) Propose(ctx context.Context, d ruleversions.Draft) (ruleversions.Version, error) {
	return ruleversions.Version{}, errUnbuilt
}

// Activate makes an existing version active: a rollback, or a roll forward.
func (s *Store) Activate(ctx context.Context, version int, actor, reason string) error {
	return errUnbuilt
}

func (s *Store) Activations(ctx context.Context, limit int) ([]orchestrator.Activation, error) {
	return nil, errUnbuilt
}

func (s *Store) Cycle(ctx context.Context, id int64) (orchestrator.Cycle, error) {
	return orchestrator.Cycle{}, errUnbuilt
}

func (s *Store) Cycles(ctx context.Context, limit int, before int64) ([]orchestrator.Cycle, error) {
	return nil, errUnbuilt
}

func (s *Store) Steps(ctx context.Context, cycle int64) ([]orchestrator.Step, error) {
	return nil, errUnbuilt
}

func (s *Store) Live(ctx context.Context, cycle int64) (orchestrator.Live, error) {
	return orchestrator.Live{}, errUnbuilt
}

func (s *Store) Runs(ctx context.Context, cycle int64) ([]orchestrator.Run, error) {
	return nil, errUnbuilt
}

func (s *Store) Run(ctx context.Context, id int64) (orchestrator.Run, error) {
	return orchestrator.Run{}, errUnbuilt
}

func (s *Store) Calls(ctx context.Context, cycle int64) ([]advisor.Call, error) {
	return nil, errUnbuilt
}

func (s *Store) Decisions(ctx context.Context, cycle int64) ([]steering.Decision, error) {
	return nil, errUnbuilt
}

func (s *Store) Snapshots(ctx context.Context, cycle int64) ([]traffic.Snapshot, error) {
	return nil, errUnbuilt
}

func (s *Store) AllNoise(ctx context.Context) ([]orchestrator.KnownNoise, error) {
	return nil, errUnbuilt
}

func (s *Store) Schedules(ctx context.Context) ([]orchestrator.Schedule, error) {
	return nil, errUnbuilt
}

func (s *Store) Schedule(ctx context.Context, id int64) (orchestrator.Schedule, error) {
	return orchestrator.Schedule{}, errUnbuilt
}

func (s *Store) SaveSchedule(ctx context.Context, sc orchestrator.Schedule) (orchestrator.Schedule, error) {
	return orchestrator.Schedule{}, errUnbuilt
}

func (s *Store) DeleteSchedule(ctx context.Context, id int64) error { return errUnbuilt }

func (s *Store) RunNow(ctx context.Context, id int64, actor string) (orchestrator.Cycle, error) {
	return orchestrator.Cycle{}, errUnbuilt
}
