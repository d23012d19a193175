package web

import (
	"context"
	"strings"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// noiseView is the known noise under one profile and driver, and what it lets a judge see.
type noiseView struct {
	orchestrator.KnownNoise
	Sees  []verdict.Resolution `json:"sees"`
	Stale []string             `json:"stale,omitempty" doc:"why it is to be measured anew; absent: it is fresh"`
	Says  string               `json:"says" doc:"the same in sentences"`
}

// noise is all that is known of this machine, as it is now.
func (s *Server) noise(ctx context.Context) (views []noiseView, err error) {
	all, err := s.History.AllNoise(ctx)
	if err != nil {
		return nil, err
	}
	requests := make([]orchestrator.Request, len(all))
	for i, n := range all {
		requests[i] = orchestrator.Request{Kind: orchestrator.Tune, Profile: n.Profile, Driver: n.Driver, Limits: s.Choices.Limits}
	}
	outlooks := s.outlooks(ctx, requests...)
	for i, n := range all {
		v := noiseView{KnownNoise: n, Sees: verdict.Resolve(n.Known, s.Choices.Limits, verdict.ShouldLook(n.Profile))}
		if i < len(outlooks) {
			v.Stale, v.Says = outlooks[i].Stale, outlooks[i].Says
		}
		views = append(views, v)
	}
	return views, nil
}

// noiseThen is what a cycle's verdict rests on: what was known before its first pair.
func (s *Server) noiseThen(ctx context.Context, cy orchestrator.Cycle) (noiseView, error) {
	then, err := s.History.NoiseThen(ctx, cy.ID)
	if err != nil {
		return noiseView{}, err
	}
	v := noiseView{KnownNoise: then, Sees: verdict.Resolve(then.Known, cy.Limits, verdict.ShouldLook(cy.Profile)), Stale: then.Stale(cy.Started, cy.Setup)}
	if len(then.Known) == 0 {
		v.Says = "The noise of this machine was not known before this cycle's first pair, so more pairs were needed. `retune doctor --noise` measures it."
		return v, nil
	}
	v.Says = "The noise of this machine was known " + then.Basis(cy.Started) + ": it lets p95 be told apart from " + smallest(v.Sees) + "."
	if len(v.Stale) > 0 {
		v.Says += " It was stale: " + strings.Join(v.Stale, "; ") + "."
	}
	return v, nil
}

// outlooks are what cycles can tell here. When that can't be looked up, a page does without: it is no reason to fail.
func (s *Server) outlooks(ctx context.Context, requests ...orchestrator.Request) []orchestrator.Outlook {
	if s.Outlooks == nil || len(requests) == 0 || requests[0].Kind != orchestrator.Tune {
		return nil
	}
	list, err := s.Outlooks(ctx, requests...)
	if err != nil {
		s.Log.Warn("what a cycle can tell here could not be looked up", "err", err)
		return nil
	}
	return list
}

// first is the first of a list; nil: there is none.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// profileOutlooks is that of each profile, with the default generator, driver and limits.
func (s *Server) profileOutlooks(ctx context.Context) []orchestrator.Outlook {
	return s.outlooks(ctx, s.profileRequests()...)
}

func (s *Server) profileRequests() (requests []orchestrator.Request) {
	generator, _ := pick("generator", "", s.Choices.Generators)
	driver, _ := pick("driver", "", s.Choices.Drivers)
	for _, p := range s.Choices.Profiles {
		requests = append(requests, orchestrator.Request{Kind: orchestrator.Tune, Profile: loadtest.Profile(p.Name), Generator: generator,
			Driver: loadtest.Driver(driver), Limits: s.Choices.Limits})
	}
	return requests
}

// settled reports whether there is nothing to warn of before such a cycle.
func settled(o orchestrator.Outlook) bool { return o.Decides() && o.Fresh() }

// outlookWord is an outlook in a word or two, for its pill.
func outlookWord(o orchestrator.Outlook) string {
	switch {
	case o.Hardest == nil:
		return "noise unknown"
	case !o.Decides():
		return "can't decide"
	case len(o.Stale) > 0:
		return "noise stale"
	case len(o.Unknown) > 0:
		return "noise known in part"
	}
	return "ok"
}

// noiseCalls are the machine's noise, and what it lets cycles tell.
func (s *Server) noiseCalls() {
	call(s, "GET", "/noise", "How noisy this machine is", 0, func(ctx context.Context, _ *struct{}) (*body[list[noiseView]], error) {
		n, err := s.noise(ctx)
		return answer(listed(n, 0), err)
	})
	call(s, "GET", "/cycles/{id}/noise", "The noise that a cycle's verdict rests on: as it was known before its first pair", 0, func(ctx context.Context, in *numbered) (*body[noiseView], error) {
		cy, err := s.History.Cycle(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return answer(s.noiseThen(ctx, cy))
	})
	call(s, "GET", "/outlooks", "What a cycle of each profile can tell on this machine", 0, func(ctx context.Context, _ *struct{}) (*body[list[orchestrator.Outlook]], error) {
		if s.Outlooks == nil {
			return answer(listed[orchestrator.Outlook](nil, 0), nil)
		}
		o, err := s.Outlooks(ctx, s.profileRequests()...)
		return answer(listed(o, 0), err)
	})
}
