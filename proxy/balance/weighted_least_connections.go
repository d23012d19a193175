package balance

func newWeightedLeastConnections(backends []*Backend, o Options) Picker {
	return &leastConnections{newChooser(backends, o), weightedConnections}
}

// weightedConnections is connections per unit of weight.
func weightedConnections(b *Backend, now int64) (cost, share float64) {
	share = float64(b.weight.Load()) * b.Warmth()
	return b.occupied(now) / share, share
}
