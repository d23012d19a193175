package web

import (
	"context"
	"errors"
	"net/http"

	"retune/orchestrator"
	"retune/ruleversions"
)

// text is an answer that is no JSON.
type text struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// pair names two versions.
type pair struct {
	A int `path:"a" minimum:"1" doc:"the older version"`
	B int `path:"b" minimum:"1" doc:"the newer version"`
}

// proposeBody is a human's rule file.
type proposeBody struct {
	YAML   string `json:"yaml" maxLength:"65536" doc:"the rule file's text"`
	Reason string `json:"reason" minLength:"1" doc:"one sentence, for those who read the history"`
	Parent int    `json:"parent,omitempty" minimum:"0" doc:"the active version that it was written against: 409 when it isn't active any more"`
	Author string `json:"author,omitempty" doc:"who proposes it; by default the user whom the request names"`
	Force  bool   `json:"force,omitempty" doc:"make a version of it even when the active one does the same"`
}

// proposed is the version that a rule file became, or the active one that does the same already.
type proposed struct {
	Status   int
	Location string `header:"Location"`
	Body     struct {
		ruleversions.Version
		Same bool `json:"already_in_force,omitempty" doc:"the active version does the same: nothing was changed"`
	}
}

// created is an answer to a request that made something.
type created[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// versionCalls are rule versions, their differences, and which one is active.
func (s *Server) versionCalls() {
	call(s, "GET", "/versions", "List rule versions, newest first", 0, func(ctx context.Context, in *paged) (*body[list[ruleversions.Version]], error) {
		found, err := s.History.Versions(ctx, in.Limit+1, int(in.Before))
		var next int64
		if len(found) > in.Limit {
			found = found[:in.Limit]
			next = int64(found[in.Limit-1].Number)
		}
		return answer(listed(found, next), err)
	})
	call(s, "GET", "/versions/{id}", "One rule version", 0, func(ctx context.Context, in *numbered) (*body[ruleversions.Version], error) {
		return answer(s.History.Version(ctx, int(in.ID)))
	})
	call(s, "GET", "/versions/{id}/yaml", "The bytes that proxies run", 0, func(ctx context.Context, in *numbered) (*text, error) {
		v, err := s.History.Version(ctx, int(in.ID))
		return &text{"application/yaml", []byte(v.YAML)}, err
	})
	call(s, "POST", "/versions", "Make a human's rule file the active version", http.StatusCreated, s.apiPropose)
	call(s, "POST", "/versions/{id}/activate", "Make a version active: a rollback, or a roll forward", 0, s.apiActivate)
	s.diffCalls()
}

// diffCalls are the differences of two versions, in three forms.
func (s *Server) diffCalls() {
	call(s, "GET", "/versions/{a}/diff/{b}", "What changed between two versions", 0, func(ctx context.Context, in *pair) (*body[ruleversions.Diff], error) {
		return answer(s.diff(ctx, in.A, in.B))
	})
	call(s, "GET", "/versions/{a}/diff/{b}/text", "The same as a unified diff", 0, func(ctx context.Context, in *pair) (*text, error) {
		d, err := s.diff(ctx, in.A, in.B)
		return &text{"text/x-diff; charset=utf-8", []byte(d.Text())}, err
	})
	call(s, "GET", "/versions/{a}/diff/{b}/markdown", "The same as Markdown, with reasons and the verdict", 0, func(ctx context.Context, in *pair) (*text, error) {
		d, err := s.diff(ctx, in.A, in.B)
		if err != nil {
			return nil, err
		}
		md, err := s.markdown(ctx, d)
		return &text{"text/markdown; charset=utf-8", []byte(md)}, err
	})
}

func (s *Server) apiPropose(ctx context.Context, in *body[proposeBody]) (*proposed, error) {
	b := in.Body
	v, err := s.propose(ctx, proposal{YAML: b.YAML, Reason: b.Reason, Parent: b.Parent, Force: b.Force}, actor(ctx, b.Author, "api"))
	out := &proposed{Status: http.StatusCreated, Location: apiBase + versionPath(v.Number)}
	out.Body.Version = v
	if errors.Is(err, orchestrator.ErrSame) {
		out.Status, out.Body.Same, err = http.StatusOK, true, nil
	}
	return out, err
}

func (s *Server) apiActivate(ctx context.Context, in *struct {
	ID   int64 `path:"id" minimum:"1"`
	Body struct {
		Reason string `json:"reason" minLength:"1" doc:"one sentence, for those who read the history"`
		Actor  string `json:"actor,omitempty" doc:"who asks"`
	}
}) (*body[orchestrator.Pointer], error) {
	if err := s.activateFor(ctx, int(in.ID), actor(ctx, in.Body.Actor, "api"), in.Body.Reason); err != nil {
		return nil, err
	}
	return answer(s.History.Pointer(ctx))
}
