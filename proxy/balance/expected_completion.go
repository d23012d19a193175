package balance

// expectedCompletion picks the backend that should have this request done first: its service time as long as
// it has a slot free, its queue's length after that (see capacity). It is our own: where response time ×
// in-flight charges a backend for requests that it works on side by side, this one charges only for those
// that have to wait.
type expectedCompletion struct{ chooser }

func newExpectedCompletion(backends []*Backend, o Options) Picker {
	return &expectedCompletion{newChooser(backends, o)}
}

func (p *expectedCompletion) Pick(uint64) *Backend { return p.least(completionCost) }

func completionCost(b *Backend, now int64) (cost, share float64) {
	load := float64(b.inFlight.Load() + 1)
	t := b.capacity.expected(load)
	if t == 0 {
		return b.untriedCost(load, now), 1
	}
	return b.corrected(t, b.capacity.age(now), load, now), 1
}
