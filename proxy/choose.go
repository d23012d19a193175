package proxy

import (
	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// chooser says where a request goes, and where to after a failure. Both lanes ask it.
type chooser struct {
	pool   *pool
	budget *budget
}

// first is the backend for a new request of the client that key stands for; nil when there is none, which is
// counted as a failure that no backend is to blame for.
func (c *chooser) first(key uint64, now int64) *seat {
	c.budget.earn()
	route := c.pool.route.Load()
	began := now
	sampled := route.sampled()
	if sampled {
		began = balance.Now() // now may be of a whole batch of events
	}
	s := route.pick(key)
	if sampled {
		route.duration.Observe(float64(balance.Now()-began) / 1e9)
	}
	if s == nil {
		c.pool.window.Backend("").Record(now, 0, traffic.Failure)
	}
	return s
}

// next is the backend for a second attempt after one at failed; nil when there is none or the budget is spent.
func (c *chooser) next(failed *seat) *seat {
	s := c.pool.route.Load().another(failed)
	if s == nil || !c.budget.spend() {
		return nil
	}
	failed.attempts.retries.Inc()
	return s
}
