package main

import (
	"context"
	"sync"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/web"
)

// driverFinder finds the load driver anew for each cycle: k6 may be installed meanwhile.
type driverFinder struct{ config loadtest.Config }

func (d driverFinder) find(want loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	r, err := loadtest.Choose(ctx, want, d.config)
	if err != nil {
		return nil, want, err
	}
	return r, r.Driver, nil
}

func (d driverFinder) choices() []web.Choice {
	auto := web.Choice{Name: string(loadtest.Auto)}
	k6 := web.Choice{Name: string(loadtest.K6), About: "your own k6"}
	if r, _, err := d.find(loadtest.Auto); err == nil {
		auto.About = r.(*loadtest.Runner).Why
	}
	if _, _, err := d.find(loadtest.K6); err != nil {
		k6.Missing = err.Error()
	}
	return []web.Choice{auto, k6, {Name: string(loadtest.Builtin), About: "the built-in open-loop driver"}}
}

// driverMemory remembers what was found for a minute. Finding k6 runs it, and pages are looked at while a run is measured
// on the same machine.
type driverMemory struct {
	driverFinder
	mu    sync.Mutex
	found map[loadtest.Driver]foundDriver // guarded by mu
}

type foundDriver struct {
	runner orchestrator.LoadRunner
	driver loadtest.Driver
	err    error
	until  time.Time
}

func (m *driverMemory) find(want loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.found[want]
	if !ok || time.Now().After(f.until) {
		f.until = time.Now().Add(time.Minute)
		f.runner, f.driver, f.err = m.driverFinder.find(want)
		if m.found == nil {
			m.found = map[loadtest.Driver]foundDriver{}
		}
		m.found[want] = f
	}
	return f.runner, f.driver, f.err
}
