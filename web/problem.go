package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
)

// ErrPending is a version that was made active, but that the proxy does not run yet.
var ErrPending = errors.New("but the proxy does not run it yet")

// statuses maps what went wrong to an HTTP status, and to what a reader can do about it. The first that matches wins.
var statuses = []struct {
	err    error
	status int
	advice string
}{
	{orchestrator.ErrNotFound, http.StatusNotFound, "It may have been removed, or the address has a typing error."},
	{orchestrator.ErrBusy, http.StatusConflict, "Only one cycle at a time loads the target. Wait for it, or cancel it."},
	{orchestrator.ErrTrial, http.StatusConflict, "A cycle is measuring a candidate. Wait for its verdict, or cancel the cycle."},
	{orchestrator.ErrStale, http.StatusConflict, "Somebody made another version active meanwhile. Look at the active version and try again."},
	{orchestrator.ErrLost, http.StatusConflict, "Another instance of Retune has taken this cycle over."},
	{orchestrator.ErrInvalid, http.StatusUnprocessableEntity, "Nothing was changed. Mend what is named above and send it again."},
	{ErrPending, http.StatusServiceUnavailable, "It is tried again every 5 s; nothing has to be sent again."},
}

// statusOf is the HTTP status of an error, with advice for the reader.
func statusOf(err error) (status int, advice string) {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status, s.advice
		}
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		return he.Code, ""
	}
	return http.StatusInternalServerError, "The log of this program says more. Trying again does no harm."
}

// invalid is an ErrInvalid with a sentence for the reader.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %s", orchestrator.ErrInvalid, fmt.Sprintf(format, a...))
}

func names(from []Choice) string {
	var all []string
	for _, c := range from {
		all = append(all, c.Name)
	}
	return strings.Join(all, ", ")
}

// fail answers a request that ended in an error: a problem document for programs, a page for people.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	if strings.HasPrefix(c.Request().URL.Path, apiBase) {
		s.failAPI(err, c)
		return
	}
	status, advice := statusOf(err)
	what := reader(err)
	if status == http.StatusInternalServerError {
		s.Log.Error("a page failed", "path", c.Request().URL.Path, "err", err)
		what = "This page could not be made."
	}
	page := problemPage(s.page(http.StatusText(status), ""), status, what, advice, inTheWay(err))
	if c.Request().Method == http.MethodHead {
		err = c.NoContent(status)
	} else {
		err = s.renderStatus(c, status, page)
	}
	if err != nil {
		s.Log.Info("an error page was not delivered", "err", err)
	}
}

// failAPI answers for what never reached a call of the API: no such path, no token, another site.
func (s *Server) failAPI(err error, c echo.Context) {
	status, advice := statusOf(err)
	doc := map[string]any{"status": status, "title": http.StatusText(status), "detail": reader(err)}
	if status >= http.StatusInternalServerError {
		s.Log.Error("an API call failed", "path", c.Request().URL.Path, "err", err)
		doc["detail"] = advice
	}
	c.Response().Header().Set("Content-Type", "application/problem+json")
	if err := c.JSON(status, doc); err != nil {
		s.Log.Info("a problem document was not delivered", "err", err)
	}
}

// reader is an error's text for a reader: echo's without its code.
func reader(err error) string {
	if errors.Is(err, echo.ErrNotFound) {
		return "There is nothing at this address."
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		return fmt.Sprint(he.Message)
	}
	return err.Error()
}

// inTheWay is the cycle that an ErrBusy is about; 0: none.
func inTheWay(err error) int64 {
	if b, ok := errors.AsType[*busyError](err); ok {
		return b.Cycle
	}
	return 0
}
