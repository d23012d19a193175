package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// contentPolicy lets a page load what this server serves, and nothing else: no inline script or style.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// maxBody is how large a request may be, in bytes: a cassette of 1 MiB, as a JSON string.
const maxBody = 3 << 20

// guard puts the middleware in front of all routes, outermost first.
func (s *Server) guard() {
	s.echo.Use(
		middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: s.panicked}), // a panic is a 500 and a log line
		secured,     // headers that every answer carries
		s.knownHost, // no DNS rebinding
		s.signedIn,  // the token, where there is one
		sameSite,    // no cross-site writes
		named,       // who asks, for handlers that see a context alone
		middleware.BodyLimit(fmt.Sprintf("%dB", maxBody)),
	)
}

func (s *Server) panicked(c echo.Context, err error, stack []byte) error {
	s.Log.Error("panic in a handler", "path", c.Request().URL.Path, "err", err, "stack", string(stack))
	return err
}

func secured(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// knownHost refuses names other than this machine's own while no token is asked: a web page elsewhere could
// else point its own name at 127.0.0.1 and read along.
func (s *Server) knownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.Token == "" && !Loopback(withPort(c.Request().Host)) {
			return echo.NewHTTPError(http.StatusMisdirectedRequest,
				"this server answers to localhost and 127.0.0.1 only: set RETUNE_AUTH_TOKEN to use another name")
		}
		return next(c)
	}
}

func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), "80")
}

// signedIn asks for the token, where there is one. Probes need none.
func (s *Server) signedIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		p := c.Request().URL.Path
		if s.Token == "" || p == "/healthz" || p == "/readyz" || s.holdsToken(c.Request()) {
			return next(c)
		}
		c.Response().Header().Set("WWW-Authenticate", `Basic realm="Retune", charset="UTF-8"`)
		return echo.NewHTTPError(http.StatusUnauthorized,
			"a token is needed: as Authorization: Bearer, or as the password of any user name")
	}
}

// holdsToken compares in constant time, by hash so that the length doesn't show either.
func (s *Server) holdsToken(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, got, ok = r.BasicAuth()
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(s.Token))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// sameSite refuses writes that another site's page makes a browser send. Programs other than browsers pass.
func sameSite(next echo.HandlerFunc) echo.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		if err := protection.Check(c.Request()); err != nil {
			return echo.NewHTTPError(http.StatusForbidden, "refused: this request comes from another site's page")
		}
		return next(c)
	}
}

// userKey is where a request's context has the user's name.
type userKey struct{}

// named notes the user's name, where the request has one.
func named(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if name, _, ok := c.Request().BasicAuth(); ok && name != "" {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), userKey{}, name)))
		}
		return next(c)
	}
}

// actor is who asks, for the record: the name that the request itself gives, its user's, or how it came in.
func actor(ctx context.Context, given, way string) string {
	name, _ := ctx.Value(userKey{}).(string)
	return cmp.Or(strings.TrimSpace(given), name, way)
}

// visitor is who asks for a page.
func visitor(c echo.Context) string { return actor(c.Request().Context(), "", "web") }
