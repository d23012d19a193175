package proxy

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"retune/proxy/rules"
	"retune/proxy/steering"
)

// reloadRules puts other rules in force and answers rules.Active. An empty body reads the file anew; a body of
// YAML is validated, replaces the file as a whole, and is swapped in. Headers:
//
//	If-Match: "SHA256"       only if these rules are in force now, else 412
//	Retune-Generation: N     the orchestrator's; lower than the last, or the same with other rules: 409
//	Retune-Trial: true       in memory alone: the file keeps the champion, which a restart would run; the same
//	                         bytes without the header make it last
//
// Invalid rules are 422 with every fault; a file that can't be written is 500. Either way nothing has changed.
func (a *admin) reloadRules(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rules.MaxSize))
	if err != nil {
		a.meters.reloads.WithLabelValues("refused").Inc()
		badBody(w, err)
		return
	}
	req, err := parseReload(r.Header, body)
	if err != nil {
		a.meters.reloads.WithLabelValues("refused").Inc()
		problem(w, http.StatusBadRequest, err.Error(), nil)
		return
	}
	active, err := a.control.reload(req, time.Now())
	if err != nil {
		a.meters.reloads.WithLabelValues("refused").Inc()
		a.log.Warn("a reload was refused; the rules in force stay", "error", err)
		reloadProblem(w, err)
		return
	}
	a.meters.reloads.WithLabelValues("ok").Inc()
	w.Header().Set("ETag", quote(active.Hash))
	answer(w, http.StatusOK, active)
}

// ReloadFile reads the rule file anew and puts it in force, as an empty reload does. What is wrong is logged, and changes
// nothing.
func (p *Proxy) ReloadFile() {
	if _, err := p.control.reload(reload{}, time.Now()); err != nil {
		p.meters.reloads.WithLabelValues("refused").Inc()
		p.log.Warn("the rule file was not taken; the rules in force stay", "error", err)
		return
	}
	p.meters.reloads.WithLabelValues("ok").Inc()
}

// parseReload reads the headers of a reload.
func parseReload(h http.Header, body []byte) (reload, error) {
	req := reload{body: body}
	if m := h.Get("If-Match"); m != "" && m != "*" {
		hash, ok := strings.CutPrefix(m, `"`)
		hash, closed := strings.CutSuffix(hash, `"`)
		if !ok || !closed || hash == "" {
			return req, errors.New(`If-Match has to be the sha256 of the rules in force in quotes: "…"`)
		}
		req.match = rules.Hash(hash)
	}
	var err error
	if req.generation, err = parseGeneration(h); err != nil {
		return req, err
	}
	switch t := h.Get("Retune-Trial"); t {
	case "", "false":
	case "true":
		req.trial = true
	default:
		return req, errors.New("Retune-Trial has to be true or false")
	}
	return req, nil
}

// parseGeneration reads the orchestrator's generation; 0: by hand.
func parseGeneration(h http.Header) (int64, error) {
	g := h.Get("Retune-Generation")
	if g == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(g, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.New("Retune-Generation has to be a whole number from 1")
	}
	return n, nil
}

// reloadProblem says why a reload was refused.
func reloadProblem(w http.ResponseWriter, err error) {
	var faults *rules.Faults
	switch {
	case errors.As(err, &faults):
		problem(w, http.StatusUnprocessableEntity, "the rules are not valid; the ones in force stay", faults.List)
	case errors.Is(err, errStale):
		problem(w, http.StatusPreconditionFailed, err.Error(), nil)
	case errors.Is(err, errGeneration):
		problem(w, http.StatusConflict, err.Error(), nil)
	case errors.Is(err, errTrialBody):
		problem(w, http.StatusBadRequest, err.Error(), nil)
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errRulesStorage):
		problem(w, http.StatusInternalServerError, "there is no rule file; the rules in force stay", nil)
	default:
		problem(w, http.StatusInternalServerError, err.Error(), nil)
	}
}

func quote(h rules.Hash) string { return `"` + string(h) + `"` }

// getRules is the YAML in force, byte for byte.
func (a *admin) getRules(w http.ResponseWriter, r *http.Request) {
	active := a.control.active.Load()
	w.Header().Set("ETag", quote(active.Hash))
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == quote(active.Hash) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(active.bytes)
}

// page is part of a journal: oldest first, and the cursor to go on from.
type page[T any] struct {
	Items     []T    `json:"items"`
	Next      string `json:"next"`
	Forgotten uint64 `json:"forgotten,omitempty"` // entries after the cursor that were dropped already
}

// listing serves a journal from ?since=, an RFC 3339 instant (entries after it) or the cursor of an answer
// before; everything without it. ?limit= bounds the answer.
func listing[T any](ring *steering.Ring[T], at func(T) time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		cursor, err := parseSince(ring, at, q.Get("since"))
		if err != nil {
			problem(w, http.StatusBadRequest, err.Error(), nil)
			return
		}
		limit := 0
		if l := q.Get("limit"); l != "" {
			if limit, err = strconv.Atoi(l); err != nil || limit < 1 {
				problem(w, http.StatusBadRequest, "limit has to be a whole number from 1", nil)
				return
			}
		}
		items, next, forgotten := ring.Since(cursor, limit)
		if items == nil {
			items = []T{}
		}
		answer(w, http.StatusOK, page[T]{items, strconv.FormatUint(next, 10), forgotten})
	}
}

func parseSince[T any](ring *steering.Ring[T], at func(T) time.Time, since string) (uint64, error) {
	if since == "" {
		return 0, nil
	}
	if cursor, err := strconv.ParseUint(since, 10, 64); err == nil {
		return cursor, nil
	}
	t, err := time.Parse(time.RFC3339Nano, since)
	if err != nil {
		return 0, errors.New("since has to be an RFC 3339 instant or the next of an earlier answer")
	}
	return ring.Seek(func(v T) bool { return at(v).After(t) }), nil
}

// status is what the control part knows of GET /alb/status.
func (c *control) status() steering.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	active := c.active.Load()
	return steering.Status{
		Mode: c.governor.Mode(), Algorithm: c.governor.Algorithm(), State: c.governor.State(),
		Rules: steering.RulesStatus{
			Version: active.Version, Hash: string(active.Hash), Generation: active.Generation, Trial: active.Trial,
			EffectiveAt: active.EffectiveAt, Safe: rules.Same(c.governor.Rules(), rules.Safe()),
		},
	}
}
