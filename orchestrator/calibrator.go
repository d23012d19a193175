package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"retune/orchestrator/loadtest"
)

// Calibrator has a machine's noise measured by itself when it is not known or has become stale. A calibration is load
// on the target, so it never waits before a cycle: it is queued only when nothing else is, and steps aside for all.
type Calibrator struct {
	Forecast *Forecast
	Enqueue  func(context.Context, Request) (Cycle, error) // ErrBusy when a cycle is queued or running
	Target   string
	Log      *slog.Logger
}

// Self is who asks for the calibrations that start by themselves.
const Self = "retune"

// BySelf reports whether a request is for a calibration that starts by itself, which steps aside for everybody else's.
func (r Request) BySelf() bool { return r.Kind == Calibrate && r.Trigger == "system" }

// Refresh queues a calibration under a profile and driver unless the noise is known and
// fresh, or a cycle waits or runs. Known is known of one scenario: one that gives no evidence here would have it measured again
// and again.
func (k *Calibrator) Refresh(ctx context.Context, p loadtest.Profile, d loadtest.Driver) {
	now, err := k.Forecast.Outlooks(ctx, time.Now(), Request{Kind: Tune, Profile: p, Driver: d})
	if err == nil && now[0].Hardest != nil && len(now[0].Stale) == 0 {
		return
	}
	if err == nil {
		_, err = k.Enqueue(ctx, Request{Kind: Calibrate, Trigger: "system", Actor: Self, Target: k.Target, Profile: p, Driver: d})
	}
	if err != nil && !errors.Is(err, ErrBusy) && ctx.Err() == nil {
		k.Log.Warn("the calibration of this machine could not be queued", "error", err)
	}
}

// After refreshes the noise of a schedule's profile when its cycle has ended. One that came to its pairs has refreshed
// it by itself.
func (k *Calibrator) After(ctx context.Context, c Cycle) {
	if c.Trigger == "schedule" && c.Kind == Tune {
		k.Refresh(ctx, c.Profile, c.Driver)
	}
}
