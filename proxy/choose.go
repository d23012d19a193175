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

// first is the backend on a route for a new request of the client that key stands for; nil when there is none, which is
// counted as a failure that no backend is to blame for. A fast lane has seen that the route is plain.
func (c *chooser) first(route *route, key uint64, now int64) *seat {
	c.budget.earn()
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

// next is the backend for a second attempt after one at failed; nil when there is none or the budget is spent. plain: it
// may not be one that speaks TLS, though such may have come into use since the request did.
func (c *chooser) next(failed *seat, plain bool) *seat {
	s := c.pool.route.Load().another(failed, plain)
	if s == nil || !c.budget.spend() {
		return nil
	}
	failed.attempts.retries.Inc()
	return s
}
