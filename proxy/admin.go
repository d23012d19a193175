package proxy

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

func newBootID() string { return strings.ToLower(rand.Text()[:16]) }

// admin is the API on the admin listener. It reads and changes the proxy; every error is a problem document.
type admin struct {
	*Proxy
	mux *http.ServeMux
}

func newAdmin(p *Proxy) http.Handler {
	a := &admin{p, http.NewServeMux()}
	for pattern, h := range map[string]http.HandlerFunc{
		"POST /alb/rules/reload":    a.reloadRules,
		"GET /alb/rules":            a.getRules,
		"GET /alb/status":           a.getStatus,
		"GET /alb/snapshots":        listing(p.control.snapshots, func(s traffic.Snapshot) time.Time { return s.At }),
		"GET /alb/decisions":        listing(p.control.decisions, func(d steering.Decision) time.Time { return d.At }),
		"PUT /alb/mode":             a.putMode,
		"GET /alb/backends":         a.listBackends,
		"GET /alb/backends/{id}":    a.getBackend,
		"PUT /alb/backends/{id}":    a.putBackend,
		"DELETE /alb/backends/{id}": a.deleteBackend,
		"GET /metrics":              promhttp.HandlerFor(p.meters.registry, promhttp.HandlerOpts{}).ServeHTTP,
		"GET /healthz":              func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") },
		"GET /readyz":               a.getReady,
		"GET /debug/pprof/":         pprof.Index,
		"GET /debug/pprof/cmdline":  pprof.Cmdline,
		"GET /debug/pprof/profile":  pprof.Profile,
		"GET /debug/pprof/symbol":   pprof.Symbol,
		"GET /debug/pprof/trace":    pprof.Trace,
	} {
		a.mux.HandleFunc(pattern, h)
	}
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "a page of another origin may not change the proxy", nil)
	}))
	return a.guard(cross.Handler(http.HandlerFunc(a.dispatch)))
}

// guard keeps out who may not ask: a page that was led here by a name that isn't ours (DNS rebinding), and
// whoever has no token where one is set.
func (a *admin) guard(next http.Handler) http.Handler {
	bare := loopback(a.config.adminAddress())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case bare && !localHost(r.Host):
			problem(w, http.StatusMisdirectedRequest, "use localhost or an IP address in the URL: the Host is another", nil)
		case !open && !a.allowed(r.Header.Get("Authorization")):
			w.Header().Set("WWW-Authenticate", `Bearer realm="retune proxy"`)
			problem(w, http.StatusUnauthorized, "send Authorization: Bearer with the RETUNE_ADMIN_TOKEN of this proxy", nil)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, adminBodies)
			next.ServeHTTP(w, r)
		}
	})
}

func (a *admin) allowed(authorization string) bool {
	if a.config.AdminToken == "" {
		return true
	}
	want := "Bearer " + a.config.AdminToken
	return subtle.ConstantTimeCompare([]byte(authorization), []byte(want)) == 1
}

// localHost reports whether a Host names this machine or an address, not a domain that anybody may own.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// dispatch serves the route, or says 404 or 405 as a problem.
func (a *admin) dispatch(w http.ResponseWriter, r *http.Request) {
	h, pattern := a.mux.Handler(r)
	if pattern != "" {
		a.mux.ServeHTTP(w, r) // which sets the path's values
		return
	}
	probe := &statusOnly{header: w.Header()}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		problem(w, probe.status, "this path takes "+w.Header().Get("Allow"), nil)
		return
	}
	problem(w, http.StatusNotFound, "there is no "+r.URL.Path+" here", nil)
}

// statusOnly learns what the mux would answer.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }

// problemDocument is RFC 9457's.
type problemDocument struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail"`
	Errors []rules.Fault `json:"errors,omitempty"` // every fault of a rule file
}

func problem(w http.ResponseWriter, status int, detail string, faults []rules.Fault) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problemDocument{"about:blank", http.StatusText(status), status, detail, faults})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client left, or nothing
}

// decode reads one JSON object strictly. On a fault it answers, and returns false.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		badBody(w, err)
	}
	return err == nil
}

// badBody answers for a request body that can't be used.
func badBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		problem(w, http.StatusRequestEntityTooLarge, "the body is larger than allowed", nil)
		return
	}
	problem(w, http.StatusBadRequest, "the body can't be read: "+err.Error(), nil)
}

// getReady: 200 as long as there is a healthy backend and the proxy stays.
func (a *admin) getReady(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.draining.Load():
		problem(w, http.StatusServiceUnavailable, "draining", nil)
	case !a.pool.ready():
		problem(w, http.StatusServiceUnavailable, "no backend is healthy", nil)
	default:
		_, _ = io.WriteString(w, "ready\n")
	}
}

func (a *admin) getStatus(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	s := a.control.status()
	s.Backends = a.pool.status(now)
	s.Build, s.BootID, s.StartedAt, s.UptimeS = a.config.Build, a.boot, a.started.UTC(), now.Sub(a.started).Seconds()
	answer(w, http.StatusOK, s)
}

// putMode sets the mode, and answers what holds. A Retune-Generation lower than the last is 409, as with a reload.
func (a *admin) putMode(w http.ResponseWriter, r *http.Request) {
	generation, err := parseGeneration(r.Header)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error(), nil)
		return
	}
	var m steering.Mode
	if !decode(w, r, &m) {
		return
	}
	m, err = a.control.setMode(m, generation, time.Now())
	switch {
	case errors.Is(err, errGeneration):
		problem(w, http.StatusConflict, err.Error(), nil)
	case err != nil:
		problem(w, http.StatusUnprocessableEntity, err.Error(), nil)
	default:
		answer(w, http.StatusOK, m)
	}
}
