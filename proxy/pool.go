package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// pool is the set of backends, their health, and the route over those that are available.
type pool struct {
	config HealthConfig
	window *traffic.Window
	meters *meters
	log    *slog.Logger
	probe  prober
	budget *budget // of retries

	route atomic.Pointer[route]

	mu        sync.Mutex // guards what follows, and the health of every server
	servers   []*server  // in the order in which they came
	algorithm balance.Algorithm
	params    rules.Params
	losses    []func(*server) // who wants to know of them
	desperate bool            // no backend is healthy, so all that aren't drained are used
}

func newPool(w *traffic.Window, c HealthConfig, m *meters, log *slog.Logger) *pool {
	p := &pool{config: c, window: w, meters: m, log: log, probe: httpProber(c), budget: newBudget(), algorithm: balance.RoundRobin}
	m.watch(p)
	return p
}

// Sentinels of changes to the set of backends.
var (
	errUnknownBackend = errors.New("there is no such backend")
	errOtherURL       = errors.New("a backend's URL can't change: delete it and add it anew")
)

func (b BackendConfig) check() error {
	switch {
	case b.ID == "":
		return errors.New("a backend needs an id")
	case len(b.ID) > 100:
		return fmt.Errorf("the backend id %.20q… is longer than 100 bytes", b.ID)
	case b.Weight < 1 || b.Weight > 1000:
		return fmt.Errorf("backend %s: weight %d is not in 1..1000", b.ID, b.Weight)
	case b.URL == nil || b.URL.Scheme != "http" && b.URL.Scheme != "https" || b.URL.Host == "":
		return fmt.Errorf("backend %s: the URL must be http://HOST:PORT or https://HOST:PORT", b.ID)
	case b.URL.Path != "" && b.URL.Path != "/" || b.URL.RawQuery != "" || b.URL.User != nil || b.URL.Fragment != "":
		return fmt.Errorf("backend %s: the URL may not have a path, a query, a user or a fragment", b.ID)
	}
	return nil
}

// add puts a backend into the set. One that is added while others serve begins slowly.
func (p *pool) add(b BackendConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(b)
}

func (p *pool) addLocked(b BackendConfig) *server {
	u := &url.URL{Scheme: b.URL.Scheme, Host: b.URL.Host}
	s := &server{Backend: balance.NewBackend(b.ID, u, b.Weight), pool: p, tally: p.window.Backend(b.ID), address: addressOfURL(u)}
	s.returned.Store(math.MinInt64)
	s.life.Store(newLife())
	p.servers = append(p.servers, s)
	return s
}

// put adds a backend or changes its weight and whether it drains. change is given what there is, or a new one of weight 1
// without a URL.
func (p *pool) put(id string, change func(b *BackendConfig, drain *bool) error, now time.Time) (added bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, drain := BackendConfig{ID: id, Weight: 1}, false
	s := p.findLocked(id)
	if s != nil {
		b.URL, b.Weight, drain = s.URL(), s.Weight(), s.draining
	}
	if err = change(&b, &drain); err == nil {
		err = b.check()
	}
	if err != nil {
		return false, err
	}
	if added = s == nil; added {
		s = p.addLocked(b)
		s.warmUpLocked(now)
	} else if s.URL().Host != b.URL.Host || s.URL().Scheme != b.URL.Scheme {
		return false, fmt.Errorf("backend %s: %w", b.ID, errOtherURL)
	}
	if s.draining && !drain {
		s.warmUpLocked(now)
	}
	s.draining = drain
	s.SetWeight(b.Weight)
	p.rerouteLocked()
	p.log.Info("backend set", "backend", b.ID, "weight", b.Weight, "draining", drain, "added", added)
	return added, nil
}

// remove takes a backend out of the set. Requests that it is working on finish.
func (p *pool) remove(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.findLocked(id)
	if s == nil {
		return errUnknownBackend
	}
	s.removed = true
	p.servers = slices.DeleteFunc(p.servers, func(o *server) bool { return o == s })
	p.rerouteLocked()
	p.meters.forget(id)
	p.log.Info("backend removed", "backend", id, "in_flight", s.InFlight())
	return nil
}

func (p *pool) findLocked(id string) *server {
	for _, s := range p.servers {
		if s.ID() == id {
			return s
		}
	}
	return nil
}

// use puts an algorithm in force.
func (p *pool) use(a balance.Algorithm, params rules.Params) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route.Load() != nil && p.algorithm == a && p.params == params {
		return
	}
	p.algorithm, p.params = a, params
	p.rerouteLocked()
}

// rerouteLocked builds the route anew. Every change of health, weight, set or algorithm ends here.
func (p *pool) rerouteLocked() {
	usable := slices.DeleteFunc(slices.Clone(p.servers), func(s *server) bool { return s.draining })
	healthy := slices.DeleteFunc(slices.Clone(usable), func(s *server) bool { return !s.health.up() })
	p.setDesperateLocked(len(healthy) == 0 && len(usable) > 0)
	if p.desperate {
		healthy = usable
	}
	r := &route{
		algorithm: p.algorithm, seats: make(map[*balance.Backend]*seat, len(healthy)),
		plain: true, duration: p.meters.duration(p.algorithm),
	}
	for _, s := range healthy {
		r.plain = r.plain && s.URL().Scheme == "http"
		r.available = append(r.available, s.Backend)
		r.seats[s.Backend] = &seat{server: s, attempts: p.meters.seat(p.algorithm, s.ID())}
	}
	var err error
	r.picker, err = balance.New(p.algorithm, r.available, balance.Options{Decay: p.params.Decay})
	if err != nil { // the rules were validated, so this is a fault of ours: keep serving
		p.log.Error("the algorithm can't be used; the one before stays", "error", err)
		return
	}
	p.route.Store(r)
}

// setDesperateLocked says it when the last healthy backend goes, and when one is back.
func (p *pool) setDesperateLocked(d bool) {
	if d && !p.desperate {
		p.log.Error("no backend is healthy: requests go to all that aren't drained")
	} else if p.desperate && !d {
		p.log.Info("a backend is healthy again: requests go to healthy ones alone")
	}
	p.desperate = d
}

// ready reports whether a request has somewhere healthy to go.
func (p *pool) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.desperate && len(p.servers) > 0 && len(p.route.Load().available) > 0
}

func (p *pool) inFlight() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		n += s.InFlight()
	}
	return n
}

// live is what a snapshot tells of the backends beside their traffic.
func (p *pool) live() []traffic.Live {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := make([]traffic.Live, 0, len(p.servers))
	for _, s := range p.servers {
		live = append(live, traffic.Live{ID: s.ID(), Healthy: s.health.up() && !s.draining, InFlight: s.InFlight()})
	}
	return live
}

// status is every backend as the admin API shows it.
func (p *pool) status(now time.Time) []steering.BackendStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]steering.BackendStatus, 0, len(p.servers))
	for _, s := range p.servers {
		health, why := s.healthLocked(now)
		list = append(list, steering.BackendStatus{
			ID: s.ID(), URL: s.URL().String(), Weight: s.Weight(), Health: health, Why: why, InFlight: s.InFlight(),
			AvgLatencyMS: float64(s.ResponseTime()) / float64(time.Millisecond),
			Requests:     s.requests.Load(), Errors: s.errors.Load(),
		})
	}
	return list
}
