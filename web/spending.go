package web

import (
	"context"

	"retune/orchestrator/advisor"
)

// Spending is what a model's calls came to, against their caps.
type Spending struct {
	Cycle  *advisor.Spend `json:"cycle,omitempty"` // of one cycle; nil: it was not asked about
	Today  advisor.Spend  `json:"today"`           // since midnight UTC
	Caps   advisor.Caps   `json:"caps"`
	Prices string         `json:"prices"` // the month of the price lists
}

// spending is today's, and a cycle's; 0: no cycle's.
func (s *Server) spending(ctx context.Context, cycle int64) (v Spending, err error) {
	v = Spending{Caps: s.Caps, Prices: advisor.PricesAsOf}
	if cycle != 0 {
		of, err := s.History.Spent(ctx, cycle)
		if err != nil {
			return v, err
		}
		v.Cycle = &of
	}
	v.Today, err = s.History.Spent(ctx, 0)
	return v, err
}

// spendingCalls are what a model's calls came to.
func (s *Server) spendingCalls() {
	call(s, "GET", "/spending", "What a model's calls of today came to, and the caps", 0, func(ctx context.Context, _ *struct{}) (*body[Spending], error) {
		return answer(s.spending(ctx, 0))
	})
	call(s, "GET", "/cycles/{id}/spending", "The same, with a cycle's own", 0, func(ctx context.Context, in *numbered) (*body[Spending], error) {
		if _, err := s.History.Cycle(ctx, in.ID); err != nil {
			return nil, err
		}
		return answer(s.spending(ctx, in.ID))
	})
}
