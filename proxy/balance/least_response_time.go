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
	if t == 0 {
		return b.untriedCost(load, now), 1
	}
	return b.corrected(t, age, load, now) * load, 1
}

// corrected is an expected response time, of that age, as it looks now.
//   - With requests in flight it is at least as long as they have been waiting for the next answer.
//   - What nobody confirmed for long counts less and less, so that a backend that was slow is checked: by one
//     request at a time, and not while it is in trouble, which fades by itself.
//   - Failures and warming up multiply it.
func (b *Backend) corrected(t, age, load float64, now int64) float64 {
	if load > 1 {
		t = max(t, b.silence(now))
	} else if age > staleAfter && b.trouble.at(now) == 0 {
		t *= decay((age - staleAfter) / staleTau)
	}
	if b.hindered() {
		t *= b.penalty(now)
	}
	return t
}

// hindered reports whether penalty may be over 1.
func (b *Backend) hindered() bool { return b.warmth.Load() != warm || b.trouble.level.known() }

// penalty is by how much a backend costs more for failures and for warming up.
func (b *Backend) penalty(now int64) float64 { return b.trouble.factor(now) / b.Warmth() }

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
