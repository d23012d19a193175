package balance

// leastResponseTime picks by smoothed response time × (requests in flight + 1). The plain least response
// time sends everything to one backend until it breaks; counting in flight at the moment of the pick is what
// keeps it from that.
type leastResponseTime struct{ chooser }

func newLeastResponseTime(backends []*Backend, o Options) Picker {
	return &leastResponseTime{newChooser(backends, o)}
}

func (p *leastResponseTime) Pick(uint64) *Backend { return p.least(responseTimeCost) }

func responseTimeCost(b *Backend, now int64) (cost, share float64) {
	load := float64(b.inFlight.Load() + 1)
	t, age := b.latency.recent.read(now)
	switch {
	case t == 0:
		return b.untriedCost(load, now), 1
	case load == 1:
		t *= b.doubt(age, now)
	default:
		t = max(t, b.silence(now))
	}
	return t * load * b.penalty(now), 1
}

// doubt is the factor by which an expectation of that age counts for an idle backend: what nobody confirmed
// for long is checked, by one request at a time. Trouble fades by itself.
func (b *Backend) doubt(age float64, now int64) float64 {
	if age <= staleAfter || b.trouble.at(now) > 0 {
		return 1
	}
	return decay((age - staleAfter) / staleTau)
}

// penalty is by how much a backend costs more for failures and for warming up.
func (b *Backend) penalty(now int64) float64 {
	if b.warmth.Load() == warm && !b.trouble.level.known() {
		return 1
	}
	return b.trouble.factor(now) / b.Warmth()
}

// untriedCost is the cost of a backend that never answered. Unknown is not fast: it is tried at once, by one
// request; until that one is answered it counts as slow as untried, and after a failure until that is
// forgotten.
func (b *Backend) untriedCost(load float64, now int64) float64 {
	if load == 1 && b.trouble.at(now) == 0 {
		return 0
	}
	return untried * load * b.penalty(now)
}

// untried is a second, in nanoseconds.
const untried = 1e9
