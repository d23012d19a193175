package proxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// attempts counts one backend's attempts under one algorithm, for Prometheus. Each is counted in one of several shards,
// chosen at random, so that threads seldom write to the same memory; a scrape adds them up.
type attempts struct {
	shards  []attemptShard
	retries prometheus.Counter
}

type attemptShard struct {
	picks atomic.Uint64
	ended [traffic.Retried + 1]atomic.Uint64
	sum   atomic.Int64                      // nanoseconds, of successes
	slots [len(responseTimes)]atomic.Uint64 // successes by response time; slower ones are in none
	_     [64]byte
}

// responseTimes are the histogram's upper bounds.
var responseTimes = [...]time.Duration{
	1e6, 2500e3, 5e6, 10e6, 25e6, 50e6, 100e6, 200e6, 300e6, 500e6, 750e6, 1e9, 2500e6, 5e9, 10e9,
}

func (a *attempts) shard() *attemptShard {
	return &a.shards[rand.Uint32()&uint32(len(a.shards)-1)]
}

func (a *attempts) picked() { a.shard().picks.Add(1) }

func (a *attempts) end(elapsed time.Duration, o traffic.Outcome) {
	s := a.shard()
	s.ended[o].Add(1)
	if o != traffic.Success {
		return
	}
	s.sum.Add(int64(elapsed))
	for i, bound := range responseTimes {
		if elapsed <= bound {
			s.slots[i].Add(1)
			return
		}
	}
}

// attemptsOf are the counters by algorithm and backend. They outlive routes.
type attemptsOf struct {
	mu sync.Mutex
	by map[attemptsKey]*attempts // guarded by mu

	requests, errors, selected, responseTime *prometheus.Desc
}

type attemptsKey struct {
	algorithm balance.Algorithm
	backend   string
}

func newAttemptsOf() *attemptsOf {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{"algorithm", "backend"}, nil)
	}
	return &attemptsOf{
		by:           map[attemptsKey]*attempts{},
		requests:     desc("requests_total", "Attempts that ended, whatever their outcome."),
		errors:       desc("errors_total", "Attempts that a backend failed: no connection, no or a broken answer, a 5xx."),
		selected:     desc("backend_selection_total", "Picks of a backend, retries included."),
		responseTime: desc("response_time_seconds", "From the pick to the answer's head, of successful attempts."),
	}
}

func (m *attemptsOf) get(a balance.Algorithm, backend string, retries prometheus.Counter) *attempts {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := attemptsKey{a, backend}
	if m.by[key] == nil {
		m.by[key] = &attempts{shards: make([]attemptShard, traffic.Shards()), retries: retries}
	}
	return m.by[key]
}

func (m *attemptsOf) forget(backend string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.by {
		if key.backend == backend {
			delete(m.by, key)
		}
	}
}

// Describe names the series.
func (m *attemptsOf) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.requests, m.errors, m.selected, m.responseTime} {
		ch <- d
	}
}

// Collect adds the shards up.
func (m *attemptsOf) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, a := range m.by {
		a.collect(m, ch, string(key.algorithm), key.backend)
	}
}

func (a *attempts) collect(m *attemptsOf, ch chan<- prometheus.Metric, labels ...string) {
	var picks, sum uint64
	var ended [traffic.Retried + 1]uint64
	var slots [len(responseTimes)]uint64
	for i := range a.shards {
		s := &a.shards[i]
		picks += s.picks.Load()
		sum += uint64(s.sum.Load())
		for o := range ended {
			ended[o] += s.ended[o].Load()
		}
		for k := range slots {
			slots[k] += s.slots[k].Load()
		}
	}
	counter := func(d *prometheus.Desc, n uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(m.selected, picks)
	counter(m.requests, ended[traffic.Success]+ended[traffic.Failure]+ended[traffic.Aborted]+ended[traffic.Retried])
	counter(m.errors, ended[traffic.Failure]+ended[traffic.Retried])
	cumulative, below := map[float64]uint64{}, uint64(0)
	for k, bound := range responseTimes {
		below += slots[k]
		cumulative[bound.Seconds()] = below
	}
	ch <- prometheus.MustNewConstHistogram(m.responseTime, max(below, ended[traffic.Success]), float64(sum)/1e9, cumulative, labels...)
}
