package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A backend that hangs gives no failure to count until its requests time out. What it gives is silence: requests wait,
// and none ends. A silent backend is asked at once whether it lives; one that doesn't answer that either is down, and
// its requests that can be tried elsewhere are.
const (
	// leastSilence is how long no request of a backend has to have ended, and patience how many times as long as its
	// answers usually take: what is slow by nature is not silent.
	leastSilence = 500 * time.Millisecond
	patience     = 4
	// leastAnswer is how long a silent backend has at least to answer the check.
	leastAnswer = time.Second
)

// silence is since when a backend has given no sign of life while requests waited for their answer to begin, to a tick's
// precision. That clients give up breaks no silence.
type silence struct {
	signs  uint64    // of life, until the last tick
	since  time.Time // zero: it is not silent
	asking bool
	ask    time.Time // not before this: it has just answered
}

// suspectLocked looks who has given a sign since the last tick, and returns checks of the backends that are silent, unless
// that is common.
func (p *pool) suspectLocked(now time.Time) (due []checkup) {
	all := uint64(0)
	for _, s := range p.servers {
		q := &s.health.silence
		signs := s.signs()
		all += s.requests.Load()
		switch {
		case s.Waiting() == 0, signs != q.signs:
			q.since = time.Time{}
		case q.since.IsZero():
			q.since = now
		}
		q.signs = signs
	}
	p.budget.follow(int64(all))
	silent, common := p.silentLocked(now)
	if common {
		return nil
	}
	for _, s := range silent {
		if q := &s.health.silence; !q.asking && !now.Before(q.ask) {
			q.asking = true
			timeout := min(max(leastAnswer, patience*s.LongRunAverage()), p.config.Timeout)
			due = append(due, checkup{s, timeout, p.asked})
		}
	}
	return due
}

// silentLocked lists the silent ones of the backends that take requests. common: they are more than half of those. Then
// what they share is the cause, and nobody is to be taken out for it.
func (p *pool) silentLocked(now time.Time) (silent []*server, common bool) {
	in := 0
	for _, s := range p.servers {
		if !s.health.up() || s.draining {
			continue
		}
		in++
		usual := s.LongRunAverage()
		if usual == 0 {
			usual = p.config.Timeout / patience
		}
		since := s.health.silence.since
		if !since.IsZero() && now.Sub(since) >= max(leastSilence, patience*usual) {
			silent = append(silent, s)
		}
	}
	return silent, 2*len(silent) > in
}

// asked takes the outcome of the check of a silent backend. One that has given a sign meanwhile lives.
func (p *pool) asked(s *server, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &s.health
	h.silence.asking = false
	if err == nil || errors.Is(err, errSick) {
		h.silence.ask = now.Add(p.config.Interval)
		return
	}
	silent, common := p.silentLocked(now)
	if common || s.removed || s.signs() != h.silence.signs || !slices.Contains(silent, s) {
		return
	}
	h.down, h.against = true, 0
	h.why = fmt.Sprintf("nothing came back for %s, nor from %s: %v", now.Sub(h.silence.since).Round(100*time.Millisecond), p.config.Path, err)
	p.log.Warn("backend is down", "backend", s.ID(), "why", h.why)
	p.rerouteLocked()
	s.life.Load().end()
	for _, f := range p.losses {
		f(s)
	}
}

// onLoss has f called of each backend that is lost, for as long as the pool lives. f may not wait.
func (p *pool) onLoss(f func(*server)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = append(p.losses, f)
}

// life lasts until its backend is lost: found silent and dead. A backend that comes back begins another.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

func newLife() *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{ctx, end}
}

// revive begins another life after one that has ended.
func (s *server) revive() {
	if s.life.Load().ctx.Err() != nil {
		s.life.Store(newLife())
	}
}

// onceLost calls f, once and on a goroutine of its own, when the backend is lost: what waits for its answer can wait no
// longer for any use. stop takes that back. Of a backend that is lost already it is never called: who picks it
// nevertheless has no other.
func (s *server) onceLost(f func()) (stop func() bool) {
	ctx := s.life.Load().ctx
	if ctx.Err() != nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, f)
}
