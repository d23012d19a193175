package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
)

func runPath(id int64) string { return "/runs/" + strconv.FormatInt(id, 10) }

func (s *Server) run(c echo.Context) error {
	r, err := s.pathRun(c)
	if err != nil {
		return err
	}
	return s.render(c, runPage(s.page(fmt.Sprintf("Run %d", r.ID), "Cycles"), r))
}

func (s *Server) pathRun(c echo.Context) (orchestrator.Run, error) {
	id, err := pathID(c)
	if err != nil {
		return orchestrator.Run{}, err
	}
	return s.History.Run(c.Request().Context(), id)
}

// series is what a chart draws: columns of equal length, one row per second.
type series struct {
	T      []float64 `json:"t"` // seconds since 1970
	RPS    []float64 `json:"rps"`
	P50    []float64 `json:"p50_ms"`
	P95    []float64 `json:"p95_ms"`
	P99    []float64 `json:"p99_ms"`
	Errors []float64 `json:"error_rate"`
	Marks  []mark    `json:"marks"`
}

// mark is a vertical line on a chart.
type mark struct {
	T    float64 `json:"t"`
	Text string  `json:"text"`
}

func (a *series) add(r loadtest.Result) {
	start := float64(r.Started.UnixMilli()) / 1000
	for i, sec := range r.Series {
		a.T = append(a.T, start+float64(i))
		a.RPS = append(a.RPS, float64(sec.Requests-sec.Failed))
		a.P50 = append(a.P50, sec.P50MS)
		a.P95 = append(a.P95, sec.P95MS)
		a.P99 = append(a.P99, sec.P99MS)
		a.Errors = append(a.Errors, errorRate(sec))
	}
	for _, m := range r.Marks {
		a.Marks = append(a.Marks, mark{start + m.At.Seconds(), markText(m)})
	}
}

func errorRate(s loadtest.Second) float64 {
	if s.Requests == 0 {
		return 0
	}
	return float64(s.Failed) / float64(s.Requests)
}

func markText(m loadtest.Mark) string {
	return strings.TrimSpace(words(m.Action) + " " + m.Detail)
}

func (s *Server) runSeries(c echo.Context) error {
	r, err := s.pathRun(c)
	if err != nil {
		return err
	}
	var a series
	a.add(r.Result)
	return c.JSON(http.StatusOK, a)
}

// cycleSeries joins the series of a cycle's runs so far: what a live chart begins with.
func (s *Server) cycleSeries(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	a, err := s.joined(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, a)
}

func (s *Server) joined(ctx context.Context, cycle int64) (a series, err error) {
	runs, err := s.History.Runs(ctx, cycle)
	if err != nil {
		return a, err
	}
	for _, r := range runs {
		if r, err = s.History.Run(ctx, r.ID); err != nil {
			return a, err
		}
		a.add(r.Result)
	}
	return a, nil
}

// runCSV is the table below a run's chart, for spreadsheets.
func (s *Server) runCSV(c echo.Context) error {
	r, err := s.pathRun(c)
	if err != nil {
		return err
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"second", "requests", "failed", "dropped", "avg_ms", "p50_ms", "p95_ms", "p99_ms"})
	for i, sec := range r.Result.Series {
		_ = w.Write([]string{
			strconv.Itoa(i), strconv.FormatInt(sec.Requests, 10), strconv.FormatInt(sec.Failed, 10),
			strconv.FormatInt(sec.Dropped, 10), decimal(sec.AvgMS), decimal(sec.P50MS), decimal(sec.P95MS), decimal(sec.P99MS),
		})
	}
	w.Flush()
	return download(c, fmt.Sprintf("run-%d.csv", r.ID), "text/csv; charset=utf-8", b.String())
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// statusCount is how many requests were answered with a status, or failed with an error code.
type statusCount struct {
	Code  string
	Count int64
}

func statusCounts(by map[string]int64) (counts []statusCount) {
	for _, code := range slices.Sorted(maps.Keys(by)) {
		counts = append(counts, statusCount{code, by[code]})
	}
	return counts
}

// requestsOf is how many requests were made, of how many that were planned; a closed loop has no plan.
func requestsOf(r loadtest.Result) string {
	if r.Planned == 0 {
		return grouped(r.Requests)
	}
	return grouped(r.Requests) + " of " + grouped(r.Planned)
}

// loadColumns are the checks that a table of runs shows.
var loadColumns = []loadtest.CheckName{loadtest.CheckReached, loadtest.CheckDropped, loadtest.CheckDriverCPU}

// checkOf is one check of a run; the zero Check where the run has none such.
func checkOf(r loadtest.Result, name loadtest.CheckName) loadtest.Check {
	all := r.Health()
	if i := slices.IndexFunc(all, func(c loadtest.Check) bool { return c.Name == name }); i >= 0 {
		return all[i]
	}
	return loadtest.Check{}
}

func checkName(n loadtest.CheckName) string {
	switch n {
	case loadtest.CheckReached:
		return "Of plan"
	case loadtest.CheckDropped:
		return "Dropped"
	case loadtest.CheckDriverCPU:
		return "Driver's CPU"
	}
	return "Measured"
}

func checkValue(c loadtest.Check) string {
	switch c.Name {
	case "":
		return none
	case loadtest.CheckRequests:
		return grouped(int64(c.Value))
	case loadtest.CheckReached:
		return strconv.FormatFloat(100*c.Value, 'f', 1, 64) + "%"
	}
	return share(c.Value)
}

func checkBound(c loadtest.Check) string {
	bound := strconv.FormatFloat(100*c.Bound, 'f', -1, 64) + "%"
	if c.Name == loadtest.CheckRequests {
		bound = grouped(int64(c.Bound))
	}
	if c.Least {
		return "≥ " + bound
	}
	return "≤ " + bound
}

// checkedRun is a run with how well its load was made.
type checkedRun struct {
	orchestrator.Run
	Health []loadtest.Check `json:"health" doc:"how well the load was made: each figure beside its bound"`
}

// checkedRuns are a cycle's runs, without their series.
func (s *Server) checkedRuns(ctx context.Context, cycle int64) ([]checkedRun, error) {
	runs, err := s.History.Runs(ctx, cycle)
	all := make([]checkedRun, len(runs))
	for i, r := range runs {
		all[i] = checkedRun{r, r.Result.Health()}
	}
	return all, err
}
