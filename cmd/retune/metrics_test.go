package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
)

// paper takes what it is given, or fails as it is told.
type paper struct {
	orchestrator.Ledger
	orchestrator.Notebook
	err error
}

func (p *paper) Save(context.Context, orchestrator.Cycle, string) error { return p.err }

func (p *paper) SaveCalls(context.Context, int64, int, []advisor.Call) error { return p.err }

func TestACycleIsCountedOnceItHasEnded(t *testing.T) {
	registry, under := prometheus.NewRegistry(), &paper{}
	ledger := &countedLedger{Ledger: under, meters: newMeters(registry)}
	save := func(id int64, s orchestrator.Status) {
		_ = ledger.Save(t.Context(), orchestrator.Cycle{ID: id, Status: s}, "")
	}
	save(1, orchestrator.Verifying)
	under.err = errors.New("no database")
	save(1, orchestrator.Kept)
	under.err = nil
	save(1, orchestrator.Kept)
	save(1, orchestrator.Kept)
	save(2, orchestrator.RolledBack)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP retune_cycles_total Cycles that ended here, by outcome.
# TYPE retune_cycles_total counter
retune_cycles_total{outcome="kept"} 1
retune_cycles_total{outcome="rolled_back"} 1
`), "retune_cycles_total"))
}

func TestAModelsCallsAreCounted(t *testing.T) {
	registry, dollars := prometheus.NewRegistry(), 0.25
	notebook := &countedNotebook{Notebook: &paper{}, meters: newMeters(registry)}
	require.NoError(t, notebook.SaveCalls(t.Context(), 1, 2, []advisor.Call{
		{Outcome: advisor.CallInvalidJSON, PromptTokens: 100, CompletionTokens: 10},
		{Outcome: advisor.CallOK, PromptTokens: 120, CompletionTokens: 20, CostUSD: &dollars},
	}))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP retune_llm_cost_usd_total Cost of a model's calls in US dollars, as far as prices are known, by the price lists of `+advisor.PricesAsOf+`.
# TYPE retune_llm_cost_usd_total counter
retune_llm_cost_usd_total 0.25
# HELP retune_llm_tokens_total Tokens of a model's prompts and answers.
# TYPE retune_llm_tokens_total counter
retune_llm_tokens_total{kind="completion"} 30
retune_llm_tokens_total{kind="prompt"} 220
`), "retune_llm_tokens_total", "retune_llm_cost_usd_total"))
}
