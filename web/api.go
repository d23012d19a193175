package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"retune/orchestrator"
	"retune/proxy/rules"
)

const apiBase = "/api/v1"

type operationDoc = huma.Operation

// newAPI registers every call of the API; its description is served at /openapi.yaml and /openapi.json.
func (s *Server) newAPI() {
	c := huma.DefaultConfig("Retune", s.Version)
	c.Info.Description = "Cycles, rule versions and schedules of a load balancer that rewrites its own rules. " +
		"Errors are RFC 9457 problem documents; times are RFC 3339; where a token is set, send it as Authorization: Bearer."
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil // its pages load from elsewhere, and answers need no $schema
	s.api = humaecho.New(s.echo, c)
	s.cycleCalls()
	s.judgeCalls()
	s.noiseCalls()
	s.versionCalls()
	s.lintCalls()
	s.scheduleCalls()
	s.statusCalls()
	s.spendingCalls()
}

// body is an answer with a JSON body.
type body[T any] struct{ Body T }

// list is an answer with several items, and where the next page starts.
type list[T any] struct {
	Items []T   `json:"items"`
	Next  int64 `json:"next,omitempty" doc:"before= of the next page; absent: this is the last"`
}

// listed never leaves a list null.
func listed[T any](items []T, next int64) list[T] {
	if items == nil {
		items = []T{}
	}
	return list[T]{items, next}
}

// paged is the query of a list.
type paged struct {
	Limit  int   `query:"limit" minimum:"1" maximum:"200" default:"25"`
	Before int64 `query:"before" minimum:"0" doc:"only items older than this number"`
}

// activationsQuery is what GET /activations takes; it is not paged.
type activationsQuery struct {
	Limit int  `query:"limit" minimum:"1" maximum:"200" default:"25"`
	Turns bool `query:"turns" doc:"those within trials too: the swaps of champion and candidate, and the screenings"`
}

// numbered is a path that ends in a number.
type numbered struct {
	ID int64 `path:"id" minimum:"1"`
}

// call registers one operation. Errors of handle become problem documents.
func call[I, O any](s *Server, method, path, summary string, status int, handle func(context.Context, *I) (*O, error)) {
	huma.Register(s.api, huma.Operation{
		Method: method, Path: apiBase + path, Summary: summary, DefaultStatus: status,
		OperationID: huma.GenerateOperationID(method, path, new(O)), MaxBodyBytes: maxBody,
	}, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(err)
		}
		return out, nil
	})
}

// answer wraps a value and an error as an answer.
func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// problem is an RFC 9457 document. CycleID names the cycle that is in the way.
type problem struct {
	huma.ErrorModel
	CycleID int64 `json:"cycle_id,omitempty"`
}

// problem turns an error into its document. What is not the caller's fault is logged, and told without its inside.
func (s *Server) problem(err error) error {
	status, advice := statusOf(err)
	p := &problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: err.Error()}}
	switch status {
	case http.StatusInternalServerError:
		s.Log.Error("an API call failed", "err", err)
		p.Detail = advice
		return p
	case http.StatusServiceUnavailable:
		p.Detail += ". " + advice
	}
	if faults, ok := errors.AsType[*rules.Faults](err); ok {
		p.Detail = faultCount(len(faults.List)) + " Nothing was changed."
		for i, line := range faults.Lines() {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Message: line, Location: "body.yaml", Value: faults.List[i]})
		}
	}
	if b, ok := errors.AsType[*busyError](err); ok && b.Cycle != 0 {
		p.CycleID = b.Cycle
		p.Instance = apiBase + cyclePath(b.Cycle)
		return huma.ErrorWithHeaders(p, http.Header{"Location": {p.Instance}})
	}
	return p
}

// statusCalls are what is true now.
func (s *Server) statusCalls() {
	type status struct {
		Version string               `json:"version" doc:"of this program"`
		Pointer orchestrator.Pointer `json:"pointer" doc:"which rules are in force"`
		Proxy   any                  `json:"proxy" doc:"what the proxy says of itself; null: it can't be asked"`
		Why     string               `json:"proxy_error,omitempty"`
		Running int64                `json:"running_cycle,omitempty"`
		Choices Choices              `json:"choices" doc:"what a new cycle can be made of"`
	}
	call(s, "GET", "/status", "What runs now", 0, func(ctx context.Context, _ *struct{}) (*body[status], error) {
		v, err := s.homeView(ctx)
		st := status{Version: s.Version, Pointer: v.Pointer, Why: v.Proxy.Why, Choices: s.Choices}
		if v.Proxy.Known {
			st.Proxy = v.Proxy.Status
		}
		if v.Running != nil {
			st.Running = v.Running.Cycle.ID
		}
		return answer(st, err)
	})
	call(s, "GET", "/activations", "Changes of the rules in force, newest first", 0, func(ctx context.Context, in *activationsQuery) (*body[list[orchestrator.Activation]], error) {
		a, err := s.History.Activations(ctx, in.Limit, in.Turns)
		return answer(listed(a, 0), err)
	})
}
