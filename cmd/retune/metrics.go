package main

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
)

// meters count what cycles come to, for the web listener's /metrics. They look on as a cycle is saved.
type meters struct {
	cycles, calls, tokens *prometheus.CounterVec
	cost                  prometheus.Counter
}

func newMeters(r prometheus.Registerer) *meters {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &meters{
		cycles: counter("retune_cycles_total", "Cycles that ended here, by outcome.", "outcome"),
		calls:  counter("retune_llm_calls_total", "Calls of a model, by outcome.", "outcome"),
		tokens: counter("retune_llm_tokens_total", "Tokens of a model's prompts and answers.", "kind"),
		cost: prometheus.NewCounter(prometheus.CounterOpts{Name: "retune_llm_cost_usd_total",
			Help: "Cost of a model's calls in US dollars, as far as prices are known, by the price lists of " + advisor.PricesAsOf + "."}),
	}
	r.MustRegister(m.cycles, m.calls, m.tokens, m.cost)
	return m
}

// countedLedger is a ledger whose cycles are counted as they end.
type countedLedger struct {
	orchestrator.Ledger
	meters *meters
	last   atomic.Int64 // the cycle that was counted last: an ended one may be saved again
}

// Save stores the cycle, and counts it once it has ended.
func (l *countedLedger) Save(ctx context.Context, c orchestrator.Cycle, detail string) error {
	err := l.Ledger.Save(ctx, c, detail)
	if err == nil && c.Status.Ended() && l.last.Swap(c.ID) != c.ID {
		l.meters.cycles.WithLabelValues(string(c.Status)).Inc()
	}
	return err
}

// countedNotebook is a notebook whose calls of a model are counted.
type countedNotebook struct {
	orchestrator.Notebook
	meters *meters
}

// SaveCalls counts the calls – they were made, whatever becomes of their record – and stores them.
func (n *countedNotebook) SaveCalls(ctx context.Context, cycle int64, version int, calls []advisor.Call) error {
	for _, c := range calls {
		n.meters.calls.WithLabelValues(string(c.Outcome)).Inc()
		n.meters.tokens.WithLabelValues("prompt").Add(float64(c.PromptTokens))
		n.meters.tokens.WithLabelValues("completion").Add(float64(c.CompletionTokens))
		if c.CostUSD != nil {
			n.meters.cost.Add(*c.CostUSD)
		}
	}
	return n.Notebook.SaveCalls(ctx, cycle, version, calls)
}
