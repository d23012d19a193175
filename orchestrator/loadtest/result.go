package loadtest

import "time"

// result is what was measured, before anything is said of its validity.
func (m *measurement) result(s Scenario) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun.IsZero() {
		m.settleBegin()
	}
	c := m.total
	r := Result{
		Scenario: s.Shape.Name, Started: m.begun, Duration: m.duration(s.Shape), Planned: s.Shape.Planned(),
		Requests: c.requests, Failed: c.failed, Dropped: m.dropped,
		AvgMS: c.avg(), P50MS: c.quantile(50), P90MS: c.quantile(90), P95MS: c.quantile(95), P99MS: c.quantile(99), MaxMS: c.max,
		Status: m.status,
	}
	if r.Requests > 0 {
		r.RPS = float64(r.Requests-r.Failed) / r.Duration.Seconds()
		r.ErrorRate = float64(r.Failed) / float64(r.Requests)
	}
	for _, e := range m.marks {
		r.Marks = append(r.Marks, Mark{At: e.at.Sub(m.begun), Action: e.action, Detail: e.detail, Failed: e.failed})
	}
	for _, c := range m.seconds {
		r.Series = append(r.Series, Second{Requests: c.requests, Failed: c.failed, Dropped: c.dropped,
			AvgMS: c.avg(), P50MS: c.quantile(50), P95MS: c.quantile(95), P99MS: c.quantile(99)})
	}
	if c.timed > 0 {
		r.Histogram, _ = c.latency.Encode() // fails on a broken writer only; it writes to memory
	}
	return r
}

// duration is the planned one, or what it came to in a run that was cut short or had no plan. A run in which all was
// sent took what was planned, whatever the driver's clock did meanwhile.
func (m *measurement) duration(s Shape) time.Duration {
	planned, seen := s.Duration(), m.last.Sub(m.begun)
	sent := s.Planned() > 0 && m.total.requests+m.dropped >= leastOf(s.Planned())
	if sent || planned > 0 && seen >= planned*9/10 {
		return planned
	}
	return max(seen, time.Second)
}
