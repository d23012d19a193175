package balance

import "cmp"

// p2cPeakEWMA draws two distinct backends and takes the one with the lower load: Finagle's PeakEwma, a
// moving average that jumps to each new worst and decays with time, also while nobody asks, times requests
// in flight + 1.
type p2cPeakEWMA struct{ chooser }

func newP2CPeakEWMA(backends []*Backend, o Options) Picker {
	for _, b := range backends {
		b.latency.setDecay(cmp.Or(o.Decay, DefaultDecay))
	}
	return &p2cPeakEWMA{newChooser(backends, o)}
}

func (p *p2cPeakEWMA) Pick(uint64) *Backend {
	n := len(p.backends)
	if n < 2 {
		return only(p.backends)
	}
	r := p.dice.roll()
	now := p.clock.now(r)
	i, j := twoOf(n, r)
	a, b := p.backends[i], p.backends[j]
	if peakCost(b, now) < peakCost(a, now) {
		return b
	}
	return a
}

// only is the backend of a set of at most one.
func only(backends []*Backend) *Backend {
	if len(backends) == 0 {
		return nil
	}
	return backends[0]
}

func peakCost(b *Backend, now int64) float64 {
	waiting := float64(b.inFlight.Load())
	v, age := b.latency.peak.read(now)
	if v == 0 {
		return b.untriedCost(waiting, now)
	}
	v *= decay(age/b.latency.peakTau()) * (b.felt(waiting) + 1)
	if b.trouble.level.known() {
		v *= b.trouble.factor(now)
	}
	return v
}
