package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/ruleversions"
	"retune/web"
)

// desk is a store of one calibration, and the ledger and the proxy of one version.
type desk struct {
	web.Starter
	orchestrator.Ledger
	orchestrator.Target
	ends    time.Time // of the calibration, once it is cancelled; zero: it is not
	beaten  bool      // somebody else's cycle is first
	refuses error     // what the proxy says
}

func (d *desk) Enqueue(context.Context, orchestrator.Request) (orchestrator.Cycle, error) {
	if d.beaten && !d.ends.IsZero() {
		return orchestrator.Cycle{ID: 3, Request: orchestrator.Request{Kind: orchestrator.Tune, Actor: "somebody else"}}, orchestrator.ErrBusy
	}
	if d.ends.IsZero() || time.Now().Before(d.ends) {
		return orchestrator.Cycle{ID: 1, Request: orchestrator.Request{Kind: orchestrator.Calibrate, Trigger: "system", Actor: orchestrator.Self}}, orchestrator.ErrBusy
	}
	return orchestrator.Cycle{ID: 2}, nil
}

func (d *desk) Cancel(context.Context, int64, string) error {
	d.ends = time.Now().Add(15 * time.Second)
	return nil
}

func (d *desk) Propose(context.Context, ruleversions.Draft, bool) (ruleversions.Version, error) {
	return ruleversions.Version{Number: 7}, nil
}

func (d *desk) Activate(context.Context, int, string, string) error { return nil }

func (d *desk) Pointer(context.Context) (orchestrator.Pointer, error) {
	return orchestrator.Pointer{Accepted: 7, Desired: 7, Applied: 7}, nil
}

func (d *desk) Version(context.Context, int) (ruleversions.Version, error) {
	return ruleversions.Version{Number: 7}, nil
}

func (d *desk) Apply(context.Context, ruleversions.Version, int64, bool) error { return d.refuses }

func newDesk(refuses error) (*desk, *starter) {
	d := &desk{refuses: refuses}
	return d, &starter{d, &orchestrator.Converger{Target: d, Ledger: d}, anySite()}
}

func TestRulesAreInForceOnceTheProxyRunsThem(t *testing.T) {
	_, s := newDesk(nil)
	v, err := s.Propose(t.Context(), ruleversions.Draft{}, false)
	require.NoError(t, err)
	require.Equal(t, 7, v.Number)
	require.NoError(t, s.Activate(t.Context(), 7, "test", "why"))

	_, s = newDesk(errors.New("connection refused"))
	_, err = s.Propose(t.Context(), ruleversions.Draft{}, false)
	require.ErrorIs(t, err, web.ErrPending)
	err = s.Activate(t.Context(), 7, "test", "why")
	require.ErrorIs(t, err, web.ErrPending)
	require.EqualError(t, err, "v7 is the active version, but the proxy does not run it yet: connection refused")
}

// A calibration that started by itself may need its load driver's whole grace to step aside.
func TestACalibrationStepsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newDesk(nil)
		c, err := s.Enqueue(t.Context(), orchestrator.Request{Actor: "somebody"})
		require.NoError(t, err)
		require.Equal(t, int64(2), c.ID)
	})
	synctest.Test(t, func(t *testing.T) {
		d, s := newDesk(nil)
		d.beaten = true
		began := time.Now()
		c, err := s.Enqueue(t.Context(), orchestrator.Request{Actor: "somebody"})
		require.ErrorIs(t, err, orchestrator.ErrBusy)
		require.Equal(t, int64(3), c.ID)
		require.Less(t, time.Since(began), time.Second, "that one doesn't step aside")
	})
	synctest.Test(t, func(t *testing.T) {
		_, s := newDesk(nil)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := s.Enqueue(ctx, orchestrator.Request{Actor: "somebody"})
		require.ErrorIs(t, err, orchestrator.ErrBusy)
	})
}

func TestAProfilesTimeIsThatOfWhatCanRunHere(t *testing.T) {
	scenarios, err := (&orchestratorFlags{}).scenarios()
	require.NoError(t, err)
	some := profileChoices(orchestrator.Site{Scenarios: scenarios})
	all := profileChoices(orchestrator.Site{Scenarios: scenarios, Controls: demoControls([]string{"a", "b", "c", "d"})})
	require.Len(t, some, 3)
	for i := range some {
		t.Log(some[i], all[i])
		require.NotEqual(t, some[i].About, all[i].About, "the failure scenario needs controls")
	}
	require.Equal(t, string(loadtest.Quick), some[0].Name)
}

// anySite has one scenario, which can be run anywhere.
func anySite() orchestrator.Site {
	return orchestrator.Site{Scenarios: []loadtest.Scenario{{Shape: loadtest.Shape{Name: "steady", Phases: []loadtest.Phase{{Name: "p", Duration: 1, From: 1, To: 1}}}}}}
}
