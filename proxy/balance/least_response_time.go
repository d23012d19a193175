package balance

import "math"

// leastResponseTime picks by smoothed response time × (requests in flight + 1). The plain least response
// time sends everything to one backend until it breaks; counting in flight at the moment of the pick is what
// keeps it from that.
type leastResponseTime struct{ chooser }

func newLeastResponseTime(backends []*Backend, o Options) Picker {
	return &leastResponseTime{newChooser(backends, o)}
}

func (p *leastResponseTime) Pick(uint64) *Backend { return p.least(responseTimeCost) }

func responseTimeCost(b *Backend, now int64) (cost, share float64) {
	waiting := float64(b.inFlight.Load())
	t, age := b.latency.recent.read(now)
	if t == 0 {
		return b.untriedCost(waiting, now), 1
	}
	t = b.corrected(t, age, waiting, now)
	return t * (b.felt(waiting) + 1), b.Warmth()
}

// felt is how many requests in flight count for: more while the backend is warming up, so that it gets a
// share without being flooded.
func (b *Backend) felt(waiting float64) float64 {
	if w := b.warmth.Load(); w != warm {
		return waiting / math.Float64frombits(w)
	}
	return waiting
}

// corrected is an expected response time, of that age, as it looks now.
//   - With requests waiting it is at least as long as the last answer is past.
//   - What nobody confirmed for long counts less and less, so that a backend that was slow is checked: by one
//     request at a time, and not while it is in trouble, which fades by itself.
//   - Failures multiply it.
func (b *Backend) corrected(t, age, waiting float64, now int64) float64 {
	if waiting > 0 {
		t = max(t, b.silence(now))
	} else if age > staleAfter && b.trouble.at(now) == 0 {
		t *= decay((age - staleAfter) / staleTau)
	}
	if b.trouble.level.known() {
		t *= b.trouble.factor(now)
	}
	return t
}

// untriedCost is the cost of a backend that never answered. Unknown is not fast: it is tried at once, by one
// request; until that one is answered it counts as slow as untried, and after a failure until that is
// forgotten.
func (b *Backend) untriedCost(waiting float64, now int64) float64 {
	if waiting == 0 && b.trouble.at(now) == 0 {
		return 0
	}
	return untried * (b.felt(waiting) + 1) * b.trouble.factor(now)
}

// untried is a second, in nanoseconds.
const untried = 1e9
