package proxy

import (
	"fmt"
	"slices"
	"time"

	"retune/proxy/balance"
)

// HealthConfig is how backends are judged. Zero values mean the defaults in parentheses.
type HealthConfig struct {
	Path     string        // asked by the active check (/healthz); any answer below 500 in time is life
	Interval time.Duration // between two active checks of a backend (2 s)
	Timeout  time.Duration // of one active check (3 s)
	Rise     int           // checks in a row that bring a backend back (2)
	Fall     int           // checks in a row that take it out (3)

	Failures  int           // requests in a row that eject a backend (5)
	Ejection  time.Duration // how long the first ejection lasts; each further one twice as long (5 s) …
	Longest   time.Duration // … up to this; a backend that did well for as long starts at the first again (60 s)
	SlowStart time.Duration // over which one that comes back regains its share (10 s)
}

func (c HealthConfig) withDefaults() HealthConfig {
	def := HealthConfig{
		Path: "/healthz", Interval: 2 * time.Second, Timeout: 3 * time.Second, Rise: 2, Fall: 3,
		Failures: 5, Ejection: 5 * time.Second, Longest: time.Minute, SlowStart: 10 * time.Second,
	}
	orElse(&c.Path, def.Path)
	orElse(&c.Interval, def.Interval)
	orElse(&c.Timeout, def.Timeout)
	orElse(&c.Rise, def.Rise)
	orElse(&c.Fall, def.Fall)
	orElse(&c.Failures, def.Failures)
	orElse(&c.Ejection, def.Ejection)
	orElse(&c.Longest, def.Longest)
	orElse(&c.SlowStart, def.SlowStart)
	return c
}

func orElse[T comparable](v *T, def T) {
	if zero := *new(T); *v == zero {
		*v = def
	}
}

// The share of its usual traffic with which a backend begins its slow start.
const coldest = 0.1

// health is what the checks found of one backend. The active check alone brings a backend down and up; the
// passive one ejects it for a time:
//
//	  Fall checks fail, or one
//	  while it is silent                            Failures requests fail
//	down ◀────────────────────── healthy ───────────────────────────▶ ejected
//	  │                             ▲                                    │
//	  └─────▶ slow start ───────────┴──────────── slow start ◀───────────┘
//	 Rise checks pass                                       time is over
type health struct {
	silence   silence
	down      bool
	why       string    // of down or of the ejection
	against   int       // active checks in a row that speak against down being as it is
	until     time.Time // ejected as long as this lies ahead; zero: not ejected
	ejections int       // in a row, without doing well between them
	back      time.Time // when the last ejection ended
	warming   time.Time // when slow start began; zero: it has its whole share
	nextProbe time.Time
	probing   bool
}

func (h *health) up() bool { return !h.down && h.until.IsZero() }

// warmUpLocked begins a slow start.
func (s *server) warmUpLocked(now time.Time) {
	s.health.warming = now
	s.failing.Store(0)
	s.SetWarmth(coldest)
}

// returnLocked brings a backend back that was out. What was learned of it before says nothing any more: it may be
// another process, or have been too slow only then. It is on probation: if its first request fails it is out again.
func (p *pool) returnLocked(s *server, now time.Time) {
	s.Forget()
	s.warmUpLocked(now)
	s.failing.Store(int64(p.config.Failures - 1))
	s.returned.Store(balance.Now())
	s.health.silence = silence{}
	s.revive()
}

// healthLocked names the health in one word, with the reason.
func (s *server) healthLocked(now time.Time) (health, why string) {
	h := &s.health
	switch {
	case s.draining:
		return "draining", ""
	case h.down:
		return "unhealthy", h.why
	case !h.until.IsZero():
		return "ejected", fmt.Sprintf("%s; for another %s", h.why, h.until.Sub(now).Round(time.Second))
	case !h.warming.IsZero():
		return "slow_start", fmt.Sprintf("%.0f%% of its share", 100*s.Warmth())
	}
	return "healthy", ""
}

// failed is the passive check: it is told of each request that failed, and costs little until one too many has. What
// began before the backend came back says nothing of how it is now.
func (p *pool) failed(s *server, began int64) { p.failedAs(s, began, 1, "requests fail") }

// stalled is told of an answer that stopped in the middle of a body whose length was announced, for stallTime so far.
// It weighs as much as half of what ejects a backend: health checks pass all the while, and an algorithm that goes by
// requests in flight sends hardly any more there. It says nothing where answers of most backends don't end just now.
func (p *pool) stalled(s *server, began int64) {
	p.mu.Lock()
	_, common := p.silentLocked(time.Now())
	p.mu.Unlock()
	if !common {
		p.failedAs(s, began, (p.config.Failures+1)/2, "answers stop in the middle of their body")
	}
}

func (p *pool) failedAs(s *server, began int64, weight int, why string) {
	if began < s.returned.Load() {
		return
	}
	most := int64(p.config.Failures)
	if n := s.failing.Add(int64(weight)); n/most != (n-int64(weight))/most {
		p.eject(s, why+", with no success between them", time.Now())
	}
}

// eject takes a backend out for a time, unless more than half of the backends would then be out, or all others fail
// about as often: nothing is better where its requests would go.
func (p *pool) eject(s *server, why string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &s.health
	if !h.up() || s.draining || s.removed {
		return
	}
	if out, all := p.outLocked(); out+1 > all/2 {
		p.log.Warn("a failing backend stays in: too many others are out", "backend", s.ID(), "out", out, "of", all)
		return
	}
	if !p.betterLocked(s) {
		p.log.Warn("a failing backend stays in: the others fail as well", "backend", s.ID(), "why", why)
		return
	}
	if now.Sub(h.back) > p.config.Longest {
		h.ejections = 0
	}
	h.until = now.Add(min(p.config.Ejection<<min(h.ejections, 20), p.config.Longest))
	h.ejections++
	h.why = why
	p.meters.ejections(s.ID()).Inc()
	p.log.Warn("backend ejected", "backend", s.ID(), "until", h.until, "ejections", h.ejections, "why", h.why)
	p.rerouteLocked()
}

// betterLocked reports whether there is a backend to go to that fails at most half as often.
func (p *pool) betterLocked(s *server) bool {
	now := balance.Now()
	own := s.tally.ErrorRate(now)
	return slices.ContainsFunc(p.servers, func(o *server) bool {
		return o != s && !o.draining && o.health.up() && o.tally.ErrorRate(now) <= own/2
	})
}

// forget makes health and what was learned of the backends as they are at a start, for a measurement: an arm that follows
// one in which a backend failed begins like any other. The active checks find out at once who is down all the same.
func (p *pool) forget(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.health = health{probing: s.health.probing, nextProbe: now}
		s.failing.Store(0)
		s.returned.Store(balance.Now()) // what is under way fails or not by what was before
		s.SetWarmth(1)
		s.Forget()
		s.revive()
	}
	p.rerouteLocked()
}

// outLocked counts the backends that aren't drained, and those of them that are out.
func (p *pool) outLocked() (out, all int) {
	for _, s := range p.servers {
		if s.draining {
			continue
		}
		all++
		if !s.health.up() {
			out++
		}
	}
	return out, all
}

// probed takes the outcome of an active check.
func (p *pool) probed(s *server, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &s.health
	h.probing, h.nextProbe = false, now.Add(p.config.Interval)
	if h.down == (err != nil) { // as expected
		h.against = 0
		return
	}
	if h.against++; h.against < p.config.Rise && h.down || h.against < p.config.Fall && !h.down {
		return
	}
	h.down, h.against = err != nil, 0
	if h.down {
		h.why = err.Error()
		p.log.Warn("backend is down", "backend", s.ID(), "why", h.why)
	} else {
		p.returnLocked(s, now)
		p.log.Info("backend is up", "backend", s.ID())
	}
	p.rerouteLocked()
}

// tick ends ejections, warms backends up, and returns the active checks that are due.
func (p *pool) tick(now time.Time) (due []checkup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due = p.suspectLocked(now)
	back := false
	for _, s := range p.servers {
		h := &s.health
		if !h.until.IsZero() && !now.Before(h.until) {
			h.until, h.back = time.Time{}, now
			p.returnLocked(s, now)
			back = true
			if !h.down {
				p.log.Info("backend is back from its ejection", "backend", s.ID())
			}
		}
		if !h.warming.IsZero() {
			s.warmLocked(now, p.config.SlowStart)
		}
		if !h.probing && !now.Before(h.nextProbe) {
			h.probing = true
			due = append(due, checkup{s, p.config.Timeout, p.probed})
		}
	}
	if back {
		p.rerouteLocked()
	}
	return due
}

// warmLocked sets the share that slow start has reached: from coldest to all of it, linearly.
func (s *server) warmLocked(now time.Time, whole time.Duration) {
	done := float64(now.Sub(s.health.warming)) / float64(whole)
	s.SetWarmth(coldest + (1-coldest)*done)
	if done >= 1 {
		s.health.warming = time.Time{}
	}
}
