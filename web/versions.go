package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
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

// unsupported is how many figures of a version's reasons are not in its evidence; 0 also for no version.
func (s *Server) unsupported(ctx context.Context, version int) (int, error) {
	if version == 0 {
		return 0, nil
	}
	v, err := s.History.Version(ctx, version)
	if errors.Is(err, orchestrator.ErrNotFound) {
		return 0, nil
	}
	return v.Unsupported(), err
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
	Lint   lintView
	Same   bool // somebody applied rules that do the same: they were in force already
}

// otherReasons are the reasons that the difference from the parent does not show.
func (v versionView) otherReasons() []ruleversions.Reason {
	if v.Diff == nil {
		return v.Reasons
	}
	shown := map[string]bool{}
	for _, r := range v.Diff.Rules {
		shown[r.Reason] = true
	}
	for _, s := range v.Diff.Settings {
		shown[s.Reason] = true
	}
	return slices.DeleteFunc(slices.Clone(v.Reasons), func(r ruleversions.Reason) bool { return shown[r.Text] })
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
	v.Same = c.QueryParam("same") == "1"
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
	if v.Lint, err = s.lintVersion(ctx, ver); err != nil {
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
			scenarioText(f), metricName(f.Metric), measured(f.Metric, f.Champion), measured(f.Metric, f.Candidate),
			change(f.Metric, f.Effect), interval(f), change(f.Metric, f.Limit), words(f.Outcome), strconv.Itoa(f.Pairs),
		})
	}
	return d.Markdown(t), nil
}

// scenarioText is a finding's scenario, marked where it is held out.
func scenarioText(f verdict.Finding) string {
	if f.HoldOut {
		return f.Scenario + " (hold-out)"
	}
	return f.Scenario
}

func interval(f verdict.Finding) string {
	return change(f.Metric, f.Low) + " … " + change(f.Metric, f.High)
}
