package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

const namespace = "retune_proxy"

// meters is every metric. Scraping only reads: no value changes by being looked at.
type meters struct {
	registry *prometheus.Registry

	attempts         *attemptsOf
	pickTime         *prometheus.HistogramVec // by algorithm
	retried, ejected *prometheus.CounterVec   // by backend
	owned            *prometheus.CounterVec   // by cause
	switches         *prometheus.CounterVec   // by the algorithms before and after
	reloads          *prometheus.CounterVec   // by outcome
	state, algorithm *prometheus.GaugeVec     // 1 for the one that holds
	rulesVersion     prometheus.Gauge
}

func newMeters() *meters {
	m := &meters{registry: prometheus.NewRegistry(), attempts: newAttemptsOf()}
	m.pickTime = m.histogram("algorithm_duration_seconds", "Of one pick in 64: how long it took.",
		[]float64{50e-9, 100e-9, 250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 100e-6, 1e-3}, "algorithm")
	m.retried = m.counter("retries_total", "Attempts that failed and were tried again on another backend.", "backend")
	m.ejected = m.counter("ejections_total", "Backends taken out because requests to them failed.", "backend")
	m.owned = m.counter("own_answers_total", "Answers of the proxy itself, by what X-Retune-Error says.", "cause")
	m.switches = m.counter("switches_total", "Changes of the algorithm.", "from", "algorithm")
	m.reloads = m.counter("reloads_total", "Requests to change the rules.", "outcome")
	m.state = m.gauge("traffic_state", "1 for the traffic state that holds.", "state")
	m.algorithm = m.gauge("algorithm_info", "1 for the algorithm in force.", "algorithm")
	version := prometheus.GaugeOpts{Namespace: namespace, Name: "rules_version", Help: "Version of the rules in force."}
	m.rulesVersion = prometheus.NewGauge(version)
	m.registry.MustRegister(m.attempts, m.rulesVersion, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *meters) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *meters) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *meters) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *meters) seat(a balance.Algorithm, backend string) *attempts {
	return m.attempts.get(a, backend, m.retried.WithLabelValues(backend))
}

func (m *meters) duration(a balance.Algorithm) prometheus.Observer {
	return m.pickTime.WithLabelValues(string(a))
}

func (m *meters) ejections(backend string) prometheus.Counter {
	return m.ejected.WithLabelValues(backend)
}

func (m *meters) own(cause string) prometheus.Counter { return m.owned.WithLabelValues(cause) }

// forget drops the series of a backend that was removed.
func (m *meters) forget(backend string) {
	m.attempts.forget(backend)
	for _, v := range []*prometheus.CounterVec{m.retried, m.ejected} {
		v.DeletePartialMatch(prometheus.Labels{"backend": backend})
	}
}

// decided counts a switch.
func (m *meters) decided(d steering.Decision) {
	if d.Switched {
		m.switches.WithLabelValues(string(d.PreviousAlgorithm), string(d.Algorithm)).Inc()
	}
}

// steer shows which state, algorithm and rules hold.
func (m *meters) steer(g *steering.Governor) {
	for _, s := range traffic.States() {
		m.state.WithLabelValues(string(s)).Set(oneIf(s == g.State()))
	}
	for _, a := range balance.Algorithms() {
		m.algorithm.WithLabelValues(string(a)).Set(oneIf(a == g.Algorithm()))
	}
	m.rulesVersion.Set(float64(g.Rules().Version))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// watch adds what is read off the backends at each scrape.
func (m *meters) watch(p *pool) {
	name := func(n string) string { return prometheus.BuildFQName(namespace, "", n) }
	m.registry.MustRegister(&poolCollector{
		pool:      p,
		active:    prometheus.NewDesc(name("active_connections"), "Requests that a backend is working on.", []string{"backend"}, nil),
		health:    prometheus.NewDesc(name("server_health"), "1 as long as a backend is healthy, in slow start too.", []string{"backend"}, nil),
		desperate: prometheus.NewDesc(name("none_healthy"), "1 while no backend is healthy and all that aren't drained are used.", nil, nil),
	})
}

// poolCollector reads the backends' gauges; it keeps nothing.
type poolCollector struct {
	pool                      *pool
	active, health, desperate *prometheus.Desc
}

// Describe names the gauges.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.active
	ch <- c.health
	ch <- c.desperate
}

// Collect reads them.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, b := range c.pool.status(time.Now()) {
		healthy := b.Health == "healthy" || b.Health == "slow_start"
		ch <- prometheus.MustNewConstMetric(c.active, prometheus.GaugeValue, float64(b.InFlight), b.ID)
		ch <- prometheus.MustNewConstMetric(c.health, prometheus.GaugeValue, oneIf(healthy), b.ID)
	}
	c.pool.mu.Lock()
	desperate := c.pool.desperate
	c.pool.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(c.desperate, prometheus.GaugeValue, oneIf(desperate))
}
