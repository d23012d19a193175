package balance

import (
	"math/rand/v2"
	"slices"
)

// Another chooses where to retry: the least occupied, per unit of weight, of the backends that were not tried, by
// lot among equals; nil if none is left. It allocates nothing.
func Another(backends, tried []*Backend) (best *Backend) {
	now := Now()
	var lowest float64
	equals := 0
	for _, b := range backends {
		if slices.Contains(tried, b) {
			continue
		}
		load := (b.occupied(now) + 1) / (float64(b.weight.Load()) * b.Warmth())
		switch {
		case best == nil || load < lowest:
			best, lowest, equals = b, load, 1
		case load == lowest: // reservoir sampling
			if equals++; rand.IntN(equals) == 0 {
				best = b
			}
		}
	}
	return best
}
