package balance

func newWeightedLeastConnections(backends []*Backend, o Options) Picker {
	return &leastConnections{newChooser(backends, o), weightedConnections}
}

// weightedConnections is connections per unit of weight.
func weightedConnections(b *Backend, _ int64) (cost, share float64) {
	share = float64(b.weight.Load()) * b.Warmth()
	return float64(b.inFlight.Load()) / share, share
}
