package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/ruleversions"
	"retune/web"
)

// wire joins the parts of the orchestrator: plain constructors, and the only place that knows every concrete type.
func (f *orchestratorFlags) wire(s *serving, url string) error {
	scenarios, err := f.scenarios()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	generators, choices, err := f.generators(s.store)
	if err != nil {
		return err
	}
	data, err := f.dataDir()
	if err != nil {
		return err
	}
	drivers := driverFinder{loadtest.Config{K6: f.K6, DataDir: data}}
	remembered := &driverMemory{driverFinder: drivers}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	meters := newMeters(registry)
	ledger := &countedLedger{Ledger: s.store, meters: meters}
	s.converger = &orchestrator.Converger{Target: s.target, Ledger: ledger, Log: s.log}
	site := orchestrator.Site{URL: url, Controls: f.controls(), Scenarios: scenarios}
	tuner := &orchestrator.Tuner{
		Target: s.target, Journal: s.target, Ledger: ledger, Notebook: &countedNotebook{Notebook: s.store, meters: meters}, Converger: s.converger,
		Site:   site,
		Driver: drivers.find, Setup: s.setup(remembered), Generators: generators, Replay: replay, Log: s.log,
	}
	s.forecast = &orchestrator.Forecast{Site: site, Driver: remembered.find, Setup: tuner.Setup, Noise: s.store.AllNoise}
	s.calibrator = &orchestrator.Calibrator{Forecast: s.forecast, Enqueue: s.store.Enqueue, Target: siteName, Log: s.log}
	s.dispatcher = &orchestrator.Dispatcher{Queue: s.store, Tuner: tuner, Converger: s.converger, After: s.calibrator.After, Log: s.log}
	starts := &starter{s.store, s.converger, site}
	s.web, err = web.New(web.Config{
		Starter: starts, History: s.store, Schedules: scheduler{s.store, starts}, Outlooks: s.outlooks, Proxy: s.target.Status, Snapshots: s.target.Snapshots, Ready: s.checks,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Listener: s.listener, Token: f.AuthToken, Version: version, Target: siteName, Log: s.log, Caps: f.caps(),
		Choices: web.Choices{Profiles: profileChoices(site), Generators: choices, Drivers: drivers.choices()},
	})
	return err
}

// generators are the advisors that can be used, and what the UI says of those that can't.
func (f *orchestratorFlags) generators(purse advisor.Purse) (map[string]orchestrator.Advisor, []web.Choice, error) {
	all := map[string]orchestrator.Advisor{}
	choices := []web.Choice{
		{Name: "local", About: "no model: measures fixed algorithms and picks what is best beyond noise"},
		{Name: "openai", About: f.OpenaiModel},
	}
	config := advisor.Config{OpenAI: f.openAI(purse)}
	for i, c := range choices {
		if c.Name == "openai" && f.OpenaiApiKey == "" && f.OpenaiBaseURL == "" {
			choices[i].Missing = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own"
			continue
		}
		g, err := advisor.New(c.Name, config)
		if err != nil {
			return nil, nil, fmt.Errorf("making the generator %s: %w", c.Name, err)
		}
		all[c.Name] = g
	}
	if all["openai"] != nil { // with a key at hand the model is what is wanted
		choices[0], choices[1] = choices[1], choices[0]
	}
	return all, choices, nil
}

// scenarios are the bundled ones and the user's own.
func (f *orchestratorFlags) scenarios() (all []loadtest.Scenario, err error) {
	for _, s := range loadtest.Shapes() {
		all = append(all, loadtest.Scenario{Shape: s})
	}
	if f.ScenarioDir == "" {
		return all, nil
	}
	own, err := loadtest.LoadDir(f.ScenarioDir)
	return append(all, own...), err
}

// profileChoices says honestly how long each profile takes with the scenarios that can run here: from a decision at
// the first look without screening, to one at the last look with it.
func profileChoices(site orchestrator.Site) (choices []web.Choice) {
	for _, p := range []loadtest.Profile{loadtest.Quick, loadtest.Standard, loadtest.Nightly} {
		plan, err := orchestrator.PlanFor(p)
		if err != nil {
			continue
		}
		run := site.For(p)
		most := plan.Expected(run, plan.Looks[len(plan.Looks)-1])
		plan.Screen = nil
		least := plan.Expected(run, plan.Looks[0])
		choices = append(choices, web.Choice{Name: string(p), About: fmt.Sprintf("%.0f to %.0f minutes", least.Minutes(), most.Minutes())})
	}
	return choices
}

// starter is the store's starter, but that a calibration which started by itself steps aside for whoever asks for
// a cycle, and that rules are in force when it says so.
type starter struct {
	web.Starter
	converger *orchestrator.Converger
	site      orchestrator.Site
}

const (
	stepAside   = 45 * time.Second // how long a cancelled calibration may take: its driver has a grace of 12 s
	inForceSoon = 10 * time.Second // how long the proxy may take to run what was made active
)

func (s *starter) Enqueue(ctx context.Context, r orchestrator.Request) (orchestrator.Cycle, error) {
	if err := s.site.Check(r); err != nil {
		return orchestrator.Cycle{}, err
	}
	return s.first(ctx, r.Actor, func() (orchestrator.Cycle, error) { return s.Starter.Enqueue(ctx, r) })
}

// first queues a cycle before a calibration that started by itself: that is cancelled, and its end waited for.
func (s *starter) first(ctx context.Context, actor string, enqueue func() (orchestrator.Cycle, error)) (orchestrator.Cycle, error) {
	c, err := enqueue()
	if err == nil || !c.BySelf() {
		return c, err
	}
	if err := s.Cancel(ctx, c.ID, actor); err != nil && !errors.Is(err, orchestrator.ErrInvalid) { // it may have ended meanwhile
		return c, err
	}
	wait, stop := context.WithTimeout(ctx, stepAside)
	defer stop()
	for {
		select {
		case <-wait.Done():
			return c, err
		case <-time.After(100 * time.Millisecond):
		}
		if c, err = enqueue(); !errors.Is(err, orchestrator.ErrBusy) || !c.BySelf() {
			return c, err
		}
	}
}

// scheduler is the store's schedules, but that a calibration which started by itself steps aside for RunNow too.
type scheduler struct {
	*postgres.Store
	starter *starter
}

func (s scheduler) RunNow(ctx context.Context, id int64, actor string) (orchestrator.Cycle, error) {
	return s.starter.first(ctx, actor, func() (orchestrator.Cycle, error) { return s.Store.RunNow(ctx, id, actor) })
}

// outlooks is what cycles can tell on this machine, as of now.
func (s *serving) outlooks(ctx context.Context, requests ...orchestrator.Request) ([]orchestrator.Outlook, error) {
	return s.forecast.Outlooks(ctx, time.Now(), requests...)
}

func (s *starter) Propose(ctx context.Context, d ruleversions.Draft, force bool) (ruleversions.Version, error) {
	v, err := s.Starter.Propose(ctx, d, force)
	if err != nil {
		return v, err
	}
	return v, s.inForce(ctx, v.Number)
}

func (s *starter) Activate(ctx context.Context, version int, actor, reason string) error {
	if err := s.Starter.Activate(ctx, version, actor, reason); err != nil {
		return err
	}
	return s.inForce(ctx, version)
}

// inForce brings the active version to the proxy; web.ErrPending when it does not run it yet.
func (s *starter) inForce(ctx context.Context, version int) error {
	ctx, stop := context.WithTimeout(ctx, inForceSoon)
	defer stop()
	if err := s.converger.Converge(ctx); err != nil {
		return fmt.Errorf("v%d is the active version, %w: %w", version, web.ErrPending, err)
	}
	return nil
}
