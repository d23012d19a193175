package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/orchestrator/postgres/managed"
	"retune/orchestrator/target"
	"retune/web"
)

type doctorCmd struct {
	Noise      bool   `help:"Show what is known of this machine's noise, and measure it anew: the champion against itself, under load."`
	Profile    string `help:"Profile to measure the noise for: ${enum}." enum:"quick,standard,nightly" default:"quick"`
	ProxyAdmin string `help:"Base URL of the proxy's admin API." default:"http://127.0.0.1:9901" env:"RETUNE_PROXY_ADMIN"`
	tableFlags
	serverFlags
	orchestratorFlags
}

// checkup is one check of the doctor.
type checkup struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run checks what Retune needs and says how to mend what is missing; exit 5 when something that is needed is.
func (c *doctorCmd) Run(ctx context.Context, o *output) error {
	if c.Noise {
		return c.noise(ctx, o)
	}
	all := []checkup{c.database(ctx), c.loadDriver(ctx), c.generator(), c.spending(ctx), c.data(), c.proxy(ctx)}
	all = append(all, c.server(ctx)...)
	var rows [][]string
	missing := false
	for _, k := range all {
		mark := "ok"
		if !k.OK {
			mark, missing = "missing", true
		}
		rows = append(rows, []string{k.Check, mark, k.Detail})
	}
	if err := c.print(o, all, []string{"check", "", "detail"}, rows); err != nil {
		return err
	}
	if missing {
		return &exitError{code: exitUnavailable}
	}
	return nil
}

func (c *doctorCmd) database(ctx context.Context) checkup {
	k := checkup{Check: "Postgres"}
	if c.DatabaseURL == "" {
		found, version, err := managed.Find(c.PgBin)
		if err != nil {
			k.Detail = err.Error()
			return k
		}
		k.OK, k.Detail = true, fmt.Sprintf("Retune runs its own: %s in %s", version, found)
		return k
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if err := postgres.Reachable(ctx, c.DatabaseURL); err != nil {
		k.Detail = "DATABASE_URL: " + err.Error()
		return k
	}
	k.OK, k.Detail = true, "DATABASE_URL answers"
	return k
}

func (c *doctorCmd) loadDriver(ctx context.Context) checkup {
	data, err := c.dataDir()
	if err != nil {
		return checkup{"load driver", false, err.Error()}
	}
	r, err := loadtest.Choose(ctx, loadtest.Auto, loadtest.Config{K6: c.K6, DataDir: data})
	if err != nil {
		return checkup{"load driver", false, err.Error()}
	}
	return checkup{"load driver", true, r.Why}
}

func (c *doctorCmd) generator() checkup {
	if c.OpenaiApiKey == "" && c.OpenaiBaseURL == "" {
		return checkup{"generator", true, "local; set OPENAI_API_KEY for openai"}
	}
	return checkup{"generator", true, "openai, model " + c.OpenaiModel}
}

// spending is what the model's calls of today came to; the orchestrator knows.
func (c *doctorCmd) spending(ctx context.Context) checkup {
	var s web.Spending
	api, err := c.client()
	if err == nil {
		err = api.call(ctx, http.MethodGet, "/spending", nil, &s)
	}
	if err != nil {
		return checkup{"spending", true, "not known: " + err.Error()}
	}
	return checkup{"spending", true, "today (UTC) " + s.Today.Of(s.Caps.DayUSD, s.Caps.DayTokens) + "; prices of " + s.Prices}
}

func (c *doctorCmd) data() checkup {
	dir, err := c.dataDir()
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".doctor-*"); err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
	}
	if err != nil {
		return checkup{"data folder", false, err.Error()}
	}
	return checkup{"data folder", true, dir}
}

func (c *doctorCmd) proxy(ctx context.Context) checkup {
	t, err := target.New([]string{c.ProxyAdmin}, c.AdminToken)
	if err != nil {
		return checkup{"proxy", false, err.Error()}
	}
	s, err := t.Status(ctx)
	if err != nil {
		return checkup{"proxy", false, err.Error() + "; start one with `make run` or `retune proxy`"}
	}
	return checkup{"proxy", true, fmt.Sprintf("rules v%d, %s, %s, %d backends", s.Rules.Version, s.State, s.Algorithm, len(s.Backends))}
}

// server checks the orchestrator, and what it knows of this machine's noise.
func (c *doctorCmd) server(ctx context.Context) []checkup {
	api, err := c.client()
	if err == nil {
		err = api.call(ctx, http.MethodGet, "/cycles?limit=1", nil, nil)
	}
	if err != nil {
		return []checkup{{"orchestrator", false, err.Error()}}
	}
	return []checkup{{"orchestrator", true, api.base}, noiseKnown(ctx, api)}
}
