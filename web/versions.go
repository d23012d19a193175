package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

const versionsPerPage = 25

func versionPath(n int) string { return "/versions/" + strconv.Itoa(n) }

func diffPath(a, b int) string { return fmt.Sprintf("/versions/diff/%d..%d", a, b) }

// versionsView is one page of the list, with the verdict that each version got.
type versionsView struct {
	Versions []judged
	Active   int
	Next     int // before=; 0: this is the last page
}

// judged is a version with the verdict of the cycle that proposed it, if there was one.
type judged struct {
	ruleversions.Version
	Verdict *verdict.Verdict
}

func (s *Server) versions(c echo.Context) error {
	before, err := queryID(c, "before")
	if err != nil {
		return err
	}
	v, err := s.versionsView(c.Request().Context(), int(before))
	if err != nil {
		return err
	}
	return s.render(c, versionsPage(s.page("Rule versions", "Rules"), v))
}

func (s *Server) versionsView(ctx context.Context, before int) (v versionsView, err error) {
	list, err := s.History.Versions(ctx, versionsPerPage+1, before)
	if err != nil {
		return v, err
	}
	if len(list) > versionsPerPage {
		list = list[:versionsPerPage]
		v.Next = list[versionsPerPage-1].Number
	}
	if v.Active, err = s.active(ctx); err != nil {
		return v, err
	}
	for _, ver := range list {
		j, err := s.judged(ctx, ver)
		if err != nil {
			return v, err
		}
		v.Versions = append(v.Versions, j)
	}
	return v, nil
}

// active is the accepted version; 0 before the first.
func (s *Server) active(ctx context.Context) (int, error) {
	p, err := s.History.Pointer(ctx)
	if errors.Is(err, orchestrator.ErrNotFound) {
		return 0, nil
	}
	return p.Accepted, err
}

func (s *Server) judged(ctx context.Context, v ruleversions.Version) (judged, error) {
	if v.CycleID == 0 {
		return judged{v, nil}, nil
	}
	cy, err := s.History.Cycle(ctx, v.CycleID)
	if errors.Is(err, orchestrator.ErrNotFound) {
		return judged{v, nil}, nil
	}
	return judged{v, cy.Verdict}, err
}

// versionView is one version, and what it changed.
type versionView struct {
	judged
	Active int
	Diff   *ruleversions.Diff // against its parent; nil: it has none
}

func (s *Server) version(c echo.Context) error {
	n, err := pathID(c)
	if err != nil {
		return err
	}
	v, err := s.versionView(c.Request().Context(), int(n))
	if err != nil {
		return err
	}
	return s.render(c, versionPage(s.page("Rules "+versionName(v.Number), "Rules"), v))
}

func (s *Server) versionView(ctx context.Context, n int) (v versionView, err error) {
	ver, err := s.History.Version(ctx, n)
	if err != nil {
		return v, err
	}
	if v.judged, err = s.judged(ctx, ver); err != nil {
		return v, err
	}
	if v.Active, err = s.active(ctx); err != nil || ver.Parent == 0 {
		return v, err
	}
	d, err := s.diff(ctx, ver.Parent, n)
	v.Diff = &d
	return v, err
}

// versionYAML is the bytes that proxies run.
func (s *Server) versionYAML(c echo.Context) error {
	n, err := pathID(c)
	if err != nil {
		return err
	}
	v, err := s.History.Version(c.Request().Context(), int(n))
	if err != nil {
		return err
	}
	return download(c, fmt.Sprintf("decision-rules-v%d.yml", v.Number), "application/yaml", v.YAML)
}

func (s *Server) diff(ctx context.Context, a, b int) (ruleversions.Diff, error) {
	from, err := s.History.Version(ctx, a)
	if err != nil {
		return ruleversions.Diff{}, err
	}
	to, err := s.History.Version(ctx, b)
	if err != nil {
		return ruleversions.Diff{}, err
	}
	return ruleversions.Compare(from, to), nil
}

// diffPair shows the differences of any two versions: /versions/diff/3..4, and .md for the Markdown export.
func (s *Server) diffPair(c echo.Context) error {
	pair, markdown := strings.CutSuffix(c.Param("pair"), ".md")
	a, b, err := parsePair(pair)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	d, err := s.diff(ctx, a, b)
	if err != nil {
		return err
	}
	if markdown {
		text, err := s.markdown(ctx, d)
		if err != nil {
			return err
		}
		return download(c, fmt.Sprintf("rules-v%d-to-v%d.md", a, b), "text/markdown; charset=utf-8", text)
	}
	return s.render(c, diffPage(s.page(fmt.Sprintf("Rules v%d → v%d", a, b), "Rules"), d))
}

// choosePair turns a form into a diff's address, so that it can be shared.
func (s *Server) choosePair(c echo.Context) error {
	a, b, err := parsePair(c.QueryParam("from") + ".." + c.QueryParam("to"))
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, diffPath(a, b))
}

func parsePair(pair string) (a, b int, err error) {
	from, to, ok := strings.Cut(pair, "..")
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if !ok || errA != nil || errB != nil || a < 1 || b < 1 {
		return 0, 0, invalid("%q names no two versions: write it as 3..4", pair)
	}
	return a, b, nil
}

// markdown exports a diff; where the newer version was judged against the older one, with the verdict's figures.
func (s *Server) markdown(ctx context.Context, d ruleversions.Diff) (string, error) {
	to, err := s.History.Version(ctx, d.To)
	if err != nil {
		return "", err
	}
	j, err := s.judged(ctx, to)
	if err != nil || j.Verdict == nil || to.Parent != d.From {
		return d.Markdown(), err
	}
	t := ruleversions.Table{
		Title:  "Verdict: " + words(j.Verdict.Outcome),
		Header: []string{"Scenario", "Metric", "Champion", "Candidate", "Effect", "95% interval", "Limit", "Result", "Pairs"},
	}
	for _, f := range j.Verdict.Findings {
		t.Rows = append(t.Rows, []string{
			f.Scenario, metricName(f.Metric), measured(f.Metric, f.Champion), measured(f.Metric, f.Candidate),
			change(f.Metric, f.Effect), interval(f), change(f.Metric, f.Limit), words(f.Outcome), strconv.Itoa(f.Pairs),
		})
	}
	return d.Markdown(t), nil
}

func interval(f verdict.Finding) string {
	return change(f.Metric, f.Low) + " … " + change(f.Metric, f.High)
}

// proposal is a human's rule file on its way to become a version.
type proposal struct {
	YAML   string `form:"yaml"`
	Reason string `form:"reason"`
	Parent int    `form:"parent"` // the active version that it was written against; 0: the active one now

	Faults   *rules.Faults      `form:"-"` // what is wrong with it
	Warnings []rules.Warning    `form:"-"`
	Diff     *ruleversions.Diff `form:"-"` // what it changes; nil until it is valid
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
	p.Warnings = rules.Lint(set)
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
	v, err := s.propose(c.Request().Context(), p, actor(c))
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
	})
}

// reasonsOf is the reasons that a rule file carries itself.
func reasonsOf(set rules.RuleSet) (reasons []ruleversions.Reason) {
	for _, st := range traffic.States() {
		reasons = append(reasons, ruleversions.Reason{Path: "rules." + string(st), Text: set.Rules[st].Reason})
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
	if err := s.activateFor(c.Request().Context(), int(n), actor(c), c.FormValue("reason")); err != nil {
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
