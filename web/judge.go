package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
)

// limitNames are the query parameters of a judgement under other limits.
var limitNames = []string{"p95", "rps", "errors"}

// limitsQuery reads limits from an address. What can't be read is an error, never left out: p95=10% has to be written
// as p95=10%25 in an address, and is lost by Query().
func limitsQuery(raw string) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("the address can't be read (%v): write a percentage as p95=10%%25 or p95=0.10", err)
	}
	for _, name := range limitNames {
		if len(q[name]) > 1 {
			return nil, invalid("%s is given %d times", name, len(q[name]))
		}
	}
	return q, nil
}

// limitsWith is limits with those that were typed in place of its own.
func limitsWith(l verdict.Limits, p95, rps, errorRate string) (verdict.Limits, error) {
	l, err := l.With(p95, rps, errorRate)
	if err != nil {
		err = fmt.Errorf("%w: %w", orchestrator.ErrInvalid, err)
	}
	return l, err
}

// againView is the part of a cycle's page that judges it again.
type againView struct {
	limitText // as typed, or the cycle's own
	Cycle     orchestrator.Cycle
	Asked     bool                      // limits were given
	Problem   string                    // what is wrong with them
	Unable    string                    // why the cycle can't be judged again
	Result    *orchestrator.Rejudgement // under the limits given; nil with a Problem or when it is Unable
}

// limitText is limits as they are typed.
type limitText struct{ P95, RPS, Errors string }

func textOf(l verdict.Limits) (t limitText) {
	t.P95, t.RPS, t.Errors = l.Text()
	return t
}

// judgeAgain judges an ended tuning cycle by the limits in the address, or by its own. Nil: nothing is to be judged.
func judgeAgain(v cycleView, query string) *againView {
	cy := v.Cycle
	if cy.Kind == orchestrator.Calibrate || !cy.Status.Ended() {
		return nil
	}
	a := &againView{Cycle: cy, limitText: textOf(cy.Limits)}
	q, err := limitsQuery(query)
	limits := cy.Limits
	if err == nil {
		for i, into := range []*string{&a.P95, &a.RPS, &a.Errors} {
			if q.Has(limitNames[i]) {
				*into, a.Asked = q.Get(limitNames[i]), true
			}
		}
		limits, err = limitsWith(cy.Limits, a.P95, a.RPS, a.Errors)
	}
	if err != nil {
		a.Problem = err.Error()
		limits = cy.Limits
	}
	r, err := orchestrator.Rejudge(cy, v.Runs, v.Noise.KnownNoise, limits)
	switch {
	case err != nil:
		a.Unable = err.Error()
	case a.Problem == "":
		a.Result = &r
	}
	return a
}

// status is the page's: limits that can't be read are the reader's mistake.
func (a *againView) status() int {
	if a != nil && a.Problem != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// judgeQuery is the address of a judgement by the API.
type judgeQuery struct {
	ID     int64  `path:"id" minimum:"1"`
	P95    string `query:"p95" doc:"by how much p95 may rise: 10% (in an address 10%25) or 0.10; the cycle's own limit by default"`
	RPS    string `query:"rps" doc:"by how much RPS may fall, likewise"`
	Errors string `query:"errors" doc:"by how many percentage points the error rate may rise: 1 or 0.5pp"`
}

// Resolve refuses an address of which something would be left out.
func (in *judgeQuery) Resolve(hc huma.Context) []error {
	u := hc.URL()
	q, err := limitsQuery(u.RawQuery)
	if err != nil {
		return []error{&huma.ErrorDetail{Location: "query", Message: err.Error()}}
	}
	var faults []error
	for name := range q {
		if !slices.Contains(limitNames, name) {
			faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: "is not known: the limits are p95, rps and errors", Value: q.Get(name)})
		}
	}
	return faults
}

// judgeCalls judge what is stored, anew.
func (s *Server) judgeCalls() {
	call(s, "GET", "/cycles/{id}/judge", "Judge a cycle's pairs again under other limits; nothing is loaded or stored", 0, func(ctx context.Context, in *judgeQuery) (*body[orchestrator.Rejudgement], error) {
		return answer(s.rejudge(ctx, in))
	})
}

func (s *Server) rejudge(ctx context.Context, in *judgeQuery) (r orchestrator.Rejudgement, err error) {
	cy, err := s.History.Cycle(ctx, in.ID)
	if err != nil {
		return r, err
	}
	limits, err := limitsWith(cy.Limits, in.P95, in.RPS, in.Errors)
	if err != nil {
		return r, err
	}
	runs, err := s.History.Runs(ctx, in.ID)
	if err != nil {
		return r, err
	}
	then, err := s.History.NoiseThen(ctx, in.ID)
	if err != nil {
		return r, err
	}
	return orchestrator.Rejudge(cy, runs, then, limits)
}

// lookWords says at which look a verdict was given.
func lookWords(v verdict.Verdict, looks []int) string {
	if v.Look == 0 {
		return "while settling"
	}
	return fmt.Sprintf("at look %d of %d, after %d pairs", v.Look, len(looks), v.Pairs)
}

// sentence makes one of an error's text, or of a clause.
func sentence(text string) string {
	text = strings.TrimPrefix(text, orchestrator.ErrInvalid.Error()+": ")
	text = strings.ReplaceAll(text, "\n", "; ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
