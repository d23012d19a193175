package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"retune/orchestrator/advisor"
	"retune/orchestrator/postgres/queries"
)

// Reserve sets aside the most that the next call of a model may take. advisor.ErrCap, and nothing set aside, when that
// might go over a cap; who else reserves meanwhile, here or in another instance, waits until it stands.
func (s *Store) Reserve(ctx context.Context, cycle int64, next advisor.Call, caps advisor.Caps) (id int64, err error) {
	err = s.tx(ctx, func(q *queries.Queries) error {
		if err := q.LockSpending(ctx); err != nil {
			return err
		}
		inCycle, err := spent(ctx, q, cycle)
		if err != nil {
			return err
		}
		today, err := spent(ctx, q, 0)
		if err != nil {
			return err
		}
		if err := caps.Allow(inCycle, today, next); err != nil {
			return err
		}
		id, err = q.ReserveCall(ctx, queries.ReserveCallParams{
			CycleID: cycle, Provider: clean(next.Provider), Model: clean(next.Model), Temperature: next.Temperature, PromptSha256: next.PromptSHA,
			Request: clean(next.Request), MostTokens: int64(next.MostTokens), MostUsd: next.MostUSD, Prices: next.Prices,
		})
		return err
	})
	if err != nil && !errors.Is(err, advisor.ErrCap) {
		err = fmt.Errorf("asking what was spent: %w", err)
	}
	return id, err
}

// Settle stores what a reserved call came to.
func (s *Store) Settle(ctx context.Context, c advisor.Call) error {
	if err := execAll(s.q.SettleCall(ctx, []queries.SettleCallParams{settleParams(0, c)})); err != nil {
		return fmt.Errorf("storing what a model call came to: %w", err)
	}
	return nil
}

// Spent is what the calls of a cycle came to, or of today (UTC) with cycle 0. Replayed ones cost nothing and are not
// counted.
func (s *Store) Spent(ctx context.Context, cycle int64) (advisor.Spend, error) {
	sum, err := spent(ctx, s.q, cycle)
	if err != nil {
		return sum, fmt.Errorf("asking what was spent: %w", err)
	}
	return sum, nil
}

func spent(ctx context.Context, q *queries.Queries, cycle int64) (advisor.Spend, error) {
	r, err := q.Spent(ctx, cycle)
	return advisor.Spend{Calls: int(r.Calls), USD: r.Usd, Unknown: int(r.Unknown), MostUSD: r.MostUsd, Tokens: r.Tokens}, err
}

// SaveCalls stores what was said to a model and what it answered; calls that were reserved stand there already and get
// their last word. version is what they became; 0: nothing.
func (s *Store) SaveCalls(ctx context.Context, cycle int64, version int, calls []advisor.Call) error {
	var fresh []queries.InsertCallParams
	var known []queries.SettleCallParams
	for _, c := range calls {
		if c.ID != 0 {
			known = append(known, settleParams(version, c))
			continue
		}
		fresh = append(fresh, queries.InsertCallParams{
			CycleID: cycle, Version: null(version), Provider: clean(c.Provider), Model: clean(c.Model), Temperature: c.Temperature,
			PromptSha256: c.PromptSHA, Request: clean(c.Request), Response: clean(c.Response), Outcome: c.Outcome, Error: clean(c.Error),
			PromptTokens: c.PromptTokens, CompletionTokens: c.CompletionTokens, CostUsd: c.CostUSD, Prices: c.Prices,
			MostTokens: int64(c.MostTokens), MostUsd: c.MostUSD, Replayed: clean(c.Replayed), LatencyNs: int64(c.Latency), At: c.At,
		})
	}
	err := s.tx(ctx, func(q *queries.Queries) error {
		if err := execAll(q.SettleCall(ctx, known)); err != nil {
			return err
		}
		return execAll(q.InsertCall(ctx, fresh))
	})
	if err != nil {
		return fmt.Errorf("saving the model calls of cycle %d: %w", cycle, err)
	}
	return nil
}

// settleParams leave a version that the call became already.
func settleParams(version int, c advisor.Call) queries.SettleCallParams {
	return queries.SettleCallParams{
		ID: c.ID, Version: null(version), Response: clean(c.Response), Outcome: c.Outcome, Error: clean(c.Error),
		PromptTokens: c.PromptTokens, CompletionTokens: c.CompletionTokens, CostUsd: c.CostUSD, Prices: c.Prices,
		MostTokens: int64(c.MostTokens), MostUsd: c.MostUSD, LatencyNs: int64(c.Latency),
	}
}

// Calls are a cycle's exchanges with a model, in their order.
func (s *Store) Calls(ctx context.Context, cycle int64) ([]advisor.Call, error) {
	rows, err := s.q.Calls(ctx, cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the model calls of cycle %d: %w", cycle, err)
	}
	list := make([]advisor.Call, len(rows))
	for i, r := range rows {
		list[i] = advisor.Call{
			ID: r.ID, Provider: r.Provider, Model: r.Model, Temperature: r.Temperature, PromptSHA: r.PromptSha256, Request: r.Request,
			Response: r.Response, Outcome: r.Outcome, Error: r.Error, PromptTokens: r.PromptTokens,
			CompletionTokens: r.CompletionTokens, CostUSD: r.CostUsd, Prices: r.Prices, MostTokens: int(r.MostTokens), MostUSD: r.MostUsd,
			Replayed: r.Replayed, Latency: time.Duration(r.LatencyNs), At: r.At,
		}
	}
	return list, nil
}
