package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// proposal is a human's rule file on its way to become a version.
type proposal struct {
	YAML   string `form:"yaml"`
	Reason string `form:"reason"`
	Parent int    `form:"parent"` // the active version that it was written against; 0: the active one now
	Force  bool   `form:"force"`  // make a version of it even when the active one does the same

	Faults *rules.Faults      `form:"-"` // what is wrong with it
	Lint   lintView           `form:"-"` // what can't work in it, or is probably not meant
	Diff   *ruleversions.Diff `form:"-"` // what it changes; nil until it is valid
}

// proposeForm begins with the active rules, or with those of ?from=.
func (s *Server) proposeForm(c echo.Context) error {
	ctx := c.Request().Context()
	active, err := s.active(ctx)
	if err != nil {
		return err
	}
	from, err := queryID(c, "from")
	if err != nil {
		return err
	}
	p := proposal{Parent: active}
	if n := cmp.Or(int(from), active); n != 0 {
		v, err := s.History.Version(ctx, n)
		if err != nil {
			return err
		}
		p.YAML = v.YAML
	}
	return s.render(c, proposePage(s.page("Propose rules", "Rules"), p))
}

// checkProposal shows every fault of a rule file, or what it would change. It stores nothing.
func (s *Server) checkProposal(c echo.Context) error {
	var p proposal
	if err := c.Bind(&p); err != nil {
		return err
	}
	set, err := parseRules(p.YAML)
	if faults, ok := errors.AsType[*rules.Faults](err); ok {
		p.Faults = faults
		return s.renderStatus(c, http.StatusUnprocessableEntity, proposePage(s.page("Propose rules", "Rules"), p))
	}
	if err != nil {
		return err
	}
	if p.Lint, err = s.lint(c.Request().Context(), set); err != nil {
		return err
	}
	if p.Parent != 0 {
		parent, err := s.History.Version(c.Request().Context(), p.Parent)
		if err != nil {
			return err
		}
		d := ruleversions.Compare(parent, ruleversions.Version{Rules: set, YAML: p.YAML, Reasons: reasonsOf(set)})
		p.Diff = &d
	}
	return s.render(c, proposePage(s.page("Propose rules", "Rules"), p))
}

// applyProposal stores a rule file as a human's version and makes it active.
func (s *Server) applyProposal(c echo.Context) error {
	var p proposal
	if err := c.Bind(&p); err != nil {
		return err
	}
	v, err := s.propose(c.Request().Context(), p, visitor(c))
	if errors.Is(err, orchestrator.ErrSame) {
		return c.Redirect(http.StatusSeeOther, versionPath(v.Number)+"?same=1")
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, versionPath(v.Number))
}

func (s *Server) propose(ctx context.Context, p proposal, author string) (v ruleversions.Version, err error) {
	set, err := parseRules(p.YAML)
	if err != nil {
		return v, err
	}
	if strings.TrimSpace(p.Reason) == "" {
		return v, invalid("a reason is needed: one sentence, for those who read the history")
	}
	if p.Parent == 0 {
		if p.Parent, err = s.active(ctx); err != nil {
			return v, err
		}
	}
	return s.Starter.Propose(ctx, ruleversions.Draft{
		Parent: p.Parent, Origin: rules.OriginHuman, Author: author,
		Rules: set, Summary: strings.TrimSpace(p.Reason), Reasons: reasonsOf(set),
	}, p.Force)
}

// reasonsOf is the reasons that a rule file carries itself.
func reasonsOf(set rules.RuleSet) (reasons []ruleversions.Reason) {
	for _, st := range traffic.States() {
		reasons = append(reasons, ruleversions.ReasonIn("rules."+string(st), set.Rules[st].Reason))
	}
	return reasons
}

// parseRules is rules.Parse with an error that is an orchestrator.ErrInvalid too.
func parseRules(yaml string) (rules.RuleSet, error) {
	set, err := rules.Parse("rules", []byte(yaml))
	if err != nil {
		err = fmt.Errorf("%w: %w", orchestrator.ErrInvalid, err)
	}
	return set, err
}

// activateView is what making a version active would change.
type activateView struct {
	Version ruleversions.Version
	Active  int
	Diff    *ruleversions.Diff // nil: nothing is active yet
}

// askActivate shows what making a version active would change, and asks for a reason.
func (s *Server) askActivate(c echo.Context) error {
	n, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	var v activateView
	if v.Version, err = s.History.Version(ctx, int(n)); err != nil {
		return err
	}
	if v.Active, err = s.active(ctx); err != nil {
		return err
	}
	if v.Active != 0 {
		d, err := s.diff(ctx, v.Active, int(n))
		if err != nil {
			return err
		}
		v.Diff = &d
	}
	return s.render(c, activatePage(s.page(fmt.Sprintf("Make %s active?", versionName(int(n))), "Rules"), v))
}

func (s *Server) activate(c echo.Context) error {
	n, err := pathID(c)
	if err != nil {
		return err
	}
	if err := s.activateFor(c.Request().Context(), int(n), visitor(c), c.FormValue("reason")); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, versionPath(int(n)))
}

func (s *Server) activateFor(ctx context.Context, n int, who, reason string) error {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return invalid("a reason is needed: one sentence, for those who read the history")
	}
	return s.Starter.Activate(ctx, n, who, reason)
}
