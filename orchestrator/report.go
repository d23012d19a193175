package orchestrator

import (
	"context"
	"fmt"
	"time"

	"retune/orchestrator/loadtest"
)

// reporter keeps the cycle's live progress in the notebook. Progress is news, not truth: a save that fails is forgotten.
type reporter struct {
	notebook Notebook
	live     Live
	total    time.Duration // expected, of the whole cycle
	past     time.Duration // of the parts that are done
	part     time.Duration // of the part that is under way
}

// expect sets how long the whole cycle is going to take.
func (r *reporter) expect(total time.Duration) { r.total = total }

// spent is how much of it is done.
func (r *reporter) spent() time.Duration { return r.past }

// done adds a part that is done.
func (r *reporter) done(d time.Duration) { r.past, r.part = r.past+d, 0 }

func (r *reporter) step(ctx context.Context, s Status, detail string) {
	r.live.Status, r.live.Detail, r.live.Arm, r.live.Load = s, detail, "", loadtest.Progress{}
	r.save(ctx)
}

// arm says which run is under way.
func (r *reporter) arm(run Run) {
	r.live.Arm = run.Arm
	switch {
	case run.Arm == ArmScreen && run.Pair > 0:
		r.live.Detail = fmt.Sprintf("screening round %d, %s, %s", run.Pair, run.Scenario, run.who())
	case run.Pair > 0:
		r.live.Detail = fmt.Sprintf("pair %d, %s, %s v%d", run.Pair, run.Scenario, run.Arm, run.Version)
	case run.Algorithm != "":
		r.live.Detail = fmt.Sprintf("%s under %s", run.Scenario, run.Algorithm)
	default:
		r.live.Detail = fmt.Sprintf("%s, v%d", run.Scenario, run.Version)
	}
}

func (r *reporter) load(ctx context.Context, p loadtest.Progress) {
	r.part = p.Elapsed
	r.live.Load = p
	r.save(ctx)
}

func (r *reporter) save(ctx context.Context) {
	if r.notebook == nil {
		return
	}
	done := r.past + r.part
	r.live.Share = min(0.99, float64(done)/float64(max(r.total, done, 1)))
	r.live.Remaining = max(0, r.total-done)
	r.live.At = time.Now()
	ctx, stop := context.WithTimeout(ctx, time.Second) // it is called from within the driver's loop
	defer stop()
	_ = r.notebook.SaveLive(ctx, r.live)
}
