package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

func TestTheNoiseIsMeasuredByItselfWhenItIsUnknownOrStale(t *testing.T) {
	fresh, old, loud := noisyBy(0.03, 0), noisyBy(0.03, 0), noisyBy(0.5, 0)
	fresh.Updated, old.Updated, loud.Updated = time.Now(), time.Now().Add(-8*24*time.Hour), time.Now()
	scheduled := orchestrator.Request{Kind: orchestrator.Tune, Trigger: "schedule", Profile: loadtest.Quick, Driver: loadtest.Builtin}
	for name, c := range map[string]struct {
		known  orchestrator.KnownNoise
		after  orchestrator.Request
		busy   error
		queued bool
	}{
		"known and fresh":            {fresh, scheduled, nil, false},
		"loud is known too":          {loud, scheduled, nil, false},
		"stale":                      {old, scheduled, nil, true},
		"of another profile":         {fresh, orchestrator.Request{Kind: orchestrator.Tune, Trigger: "schedule", Profile: loadtest.Nightly, Driver: loadtest.Builtin}, nil, true},
		"somebody's own cycle":       {old, orchestrator.Request{Kind: orchestrator.Tune, Trigger: "web", Profile: loadtest.Quick, Driver: loadtest.Builtin}, nil, false},
		"after a calibration":        {old, orchestrator.Request{Kind: orchestrator.Calibrate, Trigger: "schedule", Profile: loadtest.Quick, Driver: loadtest.Builtin}, nil, false},
		"while another cycle waits":  {old, scheduled, orchestrator.ErrBusy, true},
		"while the database is away": {old, scheduled, errDown, true},
	} {
		var asked []orchestrator.Request
		var said bytes.Buffer
		k := orchestrator.Calibrator{
			Forecast: forecast(c.known, here), Target: "default", Log: slog.New(slog.NewTextHandler(&said, nil)),
			Enqueue: func(_ context.Context, r orchestrator.Request) (orchestrator.Cycle, error) {
				asked = append(asked, r)
				return orchestrator.Cycle{}, c.busy
			},
		}
		k.After(t.Context(), orchestrator.Cycle{Request: c.after})
		require.Equal(t, errors.Is(c.busy, errDown), said.Len() > 0, "%s: %s", name, said.String())
		if !c.queued {
			require.Empty(t, asked, name)
			continue
		}
		require.Equal(t, []orchestrator.Request{{Kind: orchestrator.Calibrate, Trigger: "system", Actor: orchestrator.Self, Target: "default",
			Profile: c.after.Profile, Driver: c.after.Driver}}, asked, name)
	}
}

// What comes after a cycle comes when its end is stored.
func TestTheDispatcherSaysWhenACycleHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after []orchestrator.Status
		_, stop := dispatching(t, &queue{waiting: []orchestrator.Cycle{numbered(1)}}, func(d *orchestrator.Dispatcher) {
			d.After = func(_ context.Context, c orchestrator.Cycle) { after = append(after, c.Status) }
		})
		time.Sleep(5 * time.Minute)
		stop()
		require.Equal(t, []orchestrator.Status{orchestrator.Kept}, after)
	})
}
