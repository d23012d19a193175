package sim

import (
	"cmp"

	"retune/proxy/balance"
)

// Oracle knows what no proxy can: each backend's mean service time, whether it fails, and when its slots will be
// free. It sends each request where mean plus waiting is least.
const Oracle balance.Algorithm = "ORACLE"

// oracle is its picker.
type oracle struct {
	w     *world
	price float64
}

func newOracle(w *world) *oracle { return &oracle{w, cmp.Or(w.setup.WaitPrice, 1)} }

func (o *oracle) Pick(uint64) *balance.Backend {
	var best *Server
	var least float64
	for _, s := range o.w.servers {
		if t := s.mean() + o.price*s.wait(o.w.now); best == nil || t < least {
			best, least = s, t
		}
	}
	return best.Balance
}

// waitPrices are those of the oracles that Limit tries. Price 1 looks for this request's own earliest end, which
// is not what is best for all: the fast backend's queue grows until it is no faster than the slow ones, and a
// request in it makes all behind it wait. What price is best depends on the load.
var waitPrices = []float64{1, 2, 4}

// Limit is the best that an oracle does in s, by its 95th percentile: what EXPECTED_COMPLETION is measured by. It
// is a limit in practice, not a proven optimum.
func Limit(s Setup) (best Result, err error) {
	s.Algorithm = Oracle
	for i, price := range waitPrices {
		s.WaitPrice = price
		r, err := Run(s)
		if err != nil {
			return Result{}, err
		}
		if i == 0 || r.Quantile(.95) < best.Quantile(.95) {
			best = r
		}
	}
	return best, nil
}
