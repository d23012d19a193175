package balance

import "sync/atomic"

// roundRobin takes the backends in turn.
type roundRobin struct {
	backends []*Backend
	next     atomic.Uint64
}

func newRoundRobin(backends []*Backend, o Options) Picker {
	return &roundRobin{backends: backends}
}

func (p *roundRobin) Pick(uint64) *Backend {
	if len(p.backends) == 0 {
		return nil
	}
	return p.backends[(p.next.Add(1)-1)%uint64(len(p.backends))]
}
