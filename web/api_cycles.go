package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// startBody is orchestrator.Request as the API takes it: every field may be left out.
type startBody struct {
	Kind      orchestrator.Kind `json:"kind,omitempty" enum:"tune,calibrate" default:"tune"`
	Trigger   string            `json:"trigger,omitempty" doc:"what asks, e.g. cli; api by default"`
	Actor     string            `json:"actor,omitempty" doc:"who asks"`
	Target    string            `json:"target,omitempty" doc:"the only one that this server has, by default"`
	Profile   loadtest.Profile  `json:"profile,omitempty" doc:"the first of choices.profiles in /status, by default"`
	Generator string            `json:"generator,omitempty" doc:"the first available of choices.generators, by default; file with a proposal"`
	Driver    loadtest.Driver   `json:"driver,omitempty" doc:"the first of choices.drivers, by default"`
	Scenarios []string          `json:"scenarios,omitempty" doc:"the profile's own, by default"`
	Limits    *verdict.Limits   `json:"limits,omitempty" doc:"how much worse a candidate may be"`
	Proposal  string            `json:"proposal,omitempty" doc:"a rule file to be judged instead of a generator's answer"`
	Replay    string            `json:"replay,omitempty" maxLength:"1048576" doc:"a cassette's text that answers in a model's place, with generator replay"`
	Force     bool              `json:"force,omitempty" doc:"measure a proposal even when it changes nothing"`
}

func (b startBody) request(ctx context.Context, s *Server) (orchestrator.Request, error) {
	if b.Generator == "file" && b.Proposal == "" {
		return orchestrator.Request{}, invalid("generator file needs a proposal: a rule file's text")
	}
	if b.Target != "" && b.Target != s.Target {
		return orchestrator.Request{}, invalid("target %q is not known here: this server tunes %s", b.Target, s.Target)
	}
	if b.Trigger == "system" || b.Trigger == "schedule" {
		return orchestrator.Request{}, invalid("trigger %s is for what Retune starts by itself", b.Trigger)
	}
	r, err := s.request(startForm{
		Kind: string(b.Kind), Profile: string(b.Profile), Generator: b.Generator, Driver: string(b.Driver),
		Scenarios: b.Scenarios, Proposal: b.Proposal, Replay: b.Replay, Force: b.Force,
	})
	r.Trigger = cmp.Or(b.Trigger, "api")
	r.Actor = actor(ctx, b.Actor, "")
	if b.Limits != nil && *b.Limits != (verdict.Limits{}) {
		r.Limits = *b.Limits
	}
	return r, err
}

// accepted is an answer to a request whose work goes on.
type accepted struct {
	Location string `header:"Location"`
	Body     orchestrator.Cycle
}

func accept(cy orchestrator.Cycle, err error) (*accepted, error) {
	return &accepted{apiBase + cyclePath(cy.ID), withoutCassette(cy)}, err
}

// withoutCassette is a cycle as it is told: a cassette is up to 1 MiB, and cycles are asked for every second while the machine is
// measured.
func withoutCassette(cy orchestrator.Cycle) orchestrator.Cycle {
	cy.Replay = ""
	return cy
}

// started is the answer to a start, with what the cycle can tell.
type started struct {
	Location string `header:"Location"`
	Body     startedCycle
}

type startedCycle struct {
	orchestrator.Cycle
	Outlook *orchestrator.Outlook `json:"outlook,omitempty" doc:"what a cycle can tell on this machine; absent: nothing can be said"`
}

// start queues a cycle. What it can tell is looked up first: afterwards the machine belongs to the measurement.
func (s *Server) start(ctx context.Context, r orchestrator.Request) (*started, error) {
	outlook := first(s.outlooks(ctx, r))
	cy, err := s.enqueue(ctx, r)
	return &started{apiBase + cyclePath(cy.ID), startedCycle{withoutCassette(cy), outlook}}, err
}

// cycleCalls are cycles, their progress and what they measured.
func (s *Server) cycleCalls() {
	type filtered struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"25"`
		Before int64  `query:"before" minimum:"0" doc:"only items older than this number"`
		Status string `query:"status" doc:"only cycles with this status"`
	}
	call(s, "GET", "/cycles", "List cycles, newest first", 0, func(ctx context.Context, in *filtered) (*body[list[orchestrator.Cycle]], error) {
		found, next, err := s.cyclesWith(ctx, in.Status, in.Limit, in.Before)
		return answer(listed(found, next), err)
	})
	call(s, "POST", "/cycles", "Start a cycle", http.StatusAccepted, func(ctx context.Context, in *body[startBody]) (*started, error) {
		r, err := in.Body.request(ctx, s)
		if err != nil {
			return nil, err
		}
		return s.start(ctx, r)
	})
	call(s, "GET", "/cycles/{id}", "One cycle, with its verdict", 0, func(ctx context.Context, in *numbered) (*body[orchestrator.Cycle], error) {
		cy, err := s.History.Cycle(ctx, in.ID)
		return answer(withoutCassette(cy), err)
	})
	call(s, "POST", "/cycles/{id}/cancel", "Cancel a cycle; the champion stays or becomes active again", http.StatusAccepted, s.apiCancel)
	call(s, "GET", "/cycles/{id}/live", "How a running cycle stands; 404 before its first progress", 0, func(ctx context.Context, in *numbered) (*body[orchestrator.Live], error) {
		return answer(s.History.Live(ctx, in.ID))
	})
	call(s, "GET", "/cycles/{id}/events", "Follow a cycle as server-sent events: live, then done", 0, s.apiEvents)
	call(s, "GET", "/cycles/{id}/runs", "A cycle's runs, without their series", 0, ofCycle(s, s.checkedRuns))
	call(s, "GET", "/cycles/{id}/decisions", "What the proxy decided during a cycle", 0, ofCycle(s, s.History.Decisions))
	call(s, "GET", "/cycles/{id}/switches", "The switches of algorithm within a cycle's runs, and whether they paid", 0, ofCycle(s, s.cycleSwitches))
	call(s, "GET", "/cycles/{id}/detection", "How the traffic of a cycle's runs was named, against its true states", 0, s.apiDetection)
	call(s, "GET", "/cycles/{id}/proposals", "What was proposed in a cycle, and what became of each", 0, ofCycle(s, s.History.Proposals))
	call(s, "GET", "/cycles/{id}/calls", "A cycle's exchanges with its generator", 0, ofCycle(s, s.History.Calls))
	call(s, "GET", "/runs/{id}", "One run, with its series", 0, func(ctx context.Context, in *numbered) (*body[checkedRun], error) {
		r, err := s.History.Run(ctx, in.ID)
		return answer(checkedRun{r, r.Result.Health()}, err)
	})
}

// ofCycle answers with a list that belongs to a cycle; a cycle that isn't there is not an empty list.
func ofCycle[T any](s *Server, read func(context.Context, int64) ([]T, error)) func(context.Context, *numbered) (*body[list[T]], error) {
	return func(ctx context.Context, in *numbered) (*body[list[T]], error) {
		if _, err := s.History.Cycle(ctx, in.ID); err != nil {
			return nil, err
		}
		items, err := read(ctx, in.ID)
		return answer(listed(items, 0), err)
	}
}

func (s *Server) apiCancel(ctx context.Context, in *struct {
	ID   int64 `path:"id" minimum:"1"`
	Body *struct {
		Actor string `json:"actor,omitempty" doc:"who asks"`
	}
}) (*accepted, error) {
	var given string
	if in.Body != nil {
		given = in.Body.Actor
	}
	if err := s.Starter.Cancel(ctx, in.ID, actor(ctx, given, "api")); err != nil {
		return nil, err
	}
	return accept(s.History.Cycle(ctx, in.ID))
}

// apiEvents follows a cycle as the page does, with JSON for data.
func (s *Server) apiEvents(ctx context.Context, in *numbered) (*huma.StreamResponse, error) {
	cy, err := s.History.Cycle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		w := humaecho.Unwrap(hc).Response()
		err := s.follow(ctx, w, cy, func(v liveView) (string, error) {
			data, err := json.Marshal(v)
			return string(data), err
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Log.Info("an event stream ended early", "err", err)
		}
	}}, nil
}
