package balance

// ipHash gives each client the same backend as long as the set stays the same. Weights and warmth don't
// matter; when the set changes, most clients move (CONSISTENT_HASH keeps them).
type ipHash struct{ backends []*Backend }

func newIPHash(backends []*Backend, _ Options) Picker { return &ipHash{backends} }

func (p *ipHash) Pick(key uint64) *Backend {
	if len(p.backends) == 0 {
		return nil
	}
	return p.backends[below(len(p.backends), mix(key+golden))]
}
