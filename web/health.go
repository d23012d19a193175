package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// healthz says that the process answers.
func (s *Server) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok", "version": s.Version})
}

// readyz says whether what it depends on is there, check by check; 503 when any is not. Why not is told to those who hold
// the token: errors name hosts, users and databases.
func (s *Server) readyz(c echo.Context) error {
	status, checks := http.StatusOK, map[string]string{}
	if s.Ready != nil {
		for name, err := range s.Ready(c.Request().Context()) {
			checks[name] = "ok"
			if err == nil {
				continue
			}
			status, checks[name] = http.StatusServiceUnavailable, "failing"
			if s.Token == "" || s.holdsToken(c.Request()) {
				checks[name] = err.Error()
			}
		}
	}
	return c.JSON(status, map[string]any{"ready": status == http.StatusOK, "checks": checks})
}
