package loadtest

import "time"

// live is the figures of the last whole second, by when requests ended; warm-up and measured load alike.
type live struct {
	second      int64 // Unix, of now
	now, before *cell
}

func newLive() live { return live{now: newCell(), before: newCell()} }

// turn moves on to the second of a later instant.
func (l *live) turn(at time.Time) {
	second := at.Unix()
	if second <= l.second {
		return
	}
	if second > l.second+1 { // a second without anything lies between
		l.now.reset()
	}
	l.second = second
	l.now, l.before = l.before, l.now
	l.now.reset()
}

// progress is how the run stands at now, which is elapsed after its start.
func (m *measurement) progress(now time.Time, elapsed time.Duration, s Scenario) Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live.turn(now)
	c := m.live.before
	return Progress{
		Scenario: s.Shape.Name, Phase: s.phaseName(now, m.begun), Elapsed: min(elapsed, s.planned()), Planned: s.planned(),
		RPS: float64(c.requests), P50MS: c.quantile(50), P95MS: c.quantile(95), P99MS: c.quantile(99),
		ErrorRate: float64(c.failed) / float64(max(1, c.requests)), Dropped: c.dropped,
	}
}

// phaseName is the shape's phase at now, for a measured load that began at begun.
func (s Scenario) phaseName(now, begun time.Time) string {
	if begun.IsZero() || now.Before(begun) {
		return "warm"
	}
	if p, _, ok := s.Shape.phaseAt(now.Sub(begun)); ok {
		return p.Name
	}
	if n := len(s.Shape.Phases); n > 0 {
		return s.Shape.Phases[n-1].Name
	}
	return "main"
}

// planned is how long the run is to take, warm-up included.
func (s Scenario) planned() time.Duration { return s.Warm + s.Shape.Duration() }
