package balance

// leastConnections picks the backend with the fewest requests in flight; with weights, the fewest per unit of
// weight. Equals get picks in proportion to their share, so that an idle set is neither one backend's nor,
// with weights, everybody's alike.
type leastConnections struct {
	chooser
	cost cost
}

func newLeastConnections(backends []*Backend, o Options) Picker {
	return &leastConnections{newChooser(backends, o), connections}
}

func (p *leastConnections) Pick(uint64) *Backend { return p.least(p.cost) }

// connections counts a backend that is warming up as fuller than it is.
func connections(b *Backend, now int64) (cost, share float64) {
	share = b.Warmth()
	return b.occupied(now) / share, share
}

// occupied is the requests in flight, and as if there were more of them on a backend that fails: one that
// fails fast never has any, and would be everybody's first choice.
func (b *Backend) occupied(now int64) float64 {
	n := float64(b.inFlight.Load())
	if b.trouble.level.known() {
		n += b.trouble.factor(now) - 1
	}
	return n
}
