package balance

import "slices"

// Another chooses where to retry: the least loaded, per unit of weight, of the backends that were not tried;
// nil if none is left. It allocates nothing.
func Another(backends, tried []*Backend) (best *Backend) {
	var lowest float64
	for _, b := range backends {
		if slices.Contains(tried, b) {
			continue
		}
		load := float64(b.inFlight.Load()+1) / (float64(b.weight.Load()) * b.Warmth())
		if best == nil || load < lowest {
			best, lowest = b, load
		}
	}
	return best
}
