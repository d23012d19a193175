package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
)

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

// fail answers a request that ended in an error.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status, _ := statusOf(err)
	_ = c.String(status, err.Error())
}
