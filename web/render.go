package web

import (
	"mime"
	"net/http"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"
)

func (s *Server) page(title, nav string) page {
	return page{Title: title, Nav: nav, Version: s.Version}
}

func (s *Server) render(c echo.Context, t templ.Component) error {
	return s.renderStatus(c, http.StatusOK, t)
}

// renderStatus renders into a buffer first, so that a template that fails is an error page, not half a page.
func (s *Server) renderStatus(c echo.Context, status int, t templ.Component) error {
	b := templ.GetBuffer()
	defer templ.ReleaseBuffer(b)
	if err := t.Render(c.Request().Context(), b); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}

func download(c echo.Context, name, contentType, body string) error {
	c.Response().Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	return c.Blob(http.StatusOK, contentType, []byte(body))
}

// pathID is the :id of a path. What is no number names nothing, so it is not found.
func pathID(c echo.Context) (int64, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, echo.ErrNotFound
	}
	return id, nil
}

// queryID is a number of the query string; 0 when it is absent.
func queryID(c echo.Context, name string) (int64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, invalid("%s=%q is no number", name, text)
	}
	return id, nil
}
