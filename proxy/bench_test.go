package proxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// BenchmarkForward is one request through the whole forwarding path, without sockets: what the proxy itself adds
// to net/http.
func BenchmarkForward(b *testing.B) {
	window := traffic.NewWindow(balance.Now(), 10*time.Second, 6)
	log := slog.New(slog.DiscardHandler)
	p := &Proxy{config: Config{RequestTimeout: 10 * time.Second}.withDefaults(), log: log, meters: newMeters()}
	p.pool = newPool(window, HealthConfig{}.withDefaults(), p.meters, log)
	for _, id := range []string{"a", "b", "c", "d"} {
		p.pool.add(BackendConfig{ID: id, URL: &url.URL{Scheme: "http", Host: id}, Weight: 1})
	}
	p.pool.use(balance.P2CPeakEWMA, rules.Params{})
	lane := &balancer{&chooser{p.pool, p.pool.budget}, instant{}}
	r := httptest.NewRequest("GET", "http://x/a?b=c", nil)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		res, err := lane.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	})
	b.ReportAllocs()
	for b.Loop() {
		p.visit(h, nil, r)
	}
}

// instant answers at once.
type instant struct{}

func (instant) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

// BenchmarkRecord is all the bookkeeping of one attempt: in flight, latencies, window, metrics, health. Every thread
// counts at the same backend, which is the worst case.
func BenchmarkRecord(b *testing.B) {
	window := traffic.NewWindow(balance.Now(), 10*time.Second, 6)
	p := newPool(window, HealthConfig{}.withDefaults(), newMeters(), slog.New(slog.DiscardHandler))
	p.add(BackendConfig{ID: "a", URL: &url.URL{Scheme: "http", Host: "a"}, Weight: 1})
	p.use(balance.RoundRobin, rules.Params{})
	s := p.route.Load().pick(0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for now := balance.Now(); pb.Next(); now += 1000 {
			x := s.begin(now)
			x.end(now+1000, traffic.Success)
		}
	})
}

// BenchmarkOriginOf finds the client behind a trusted peer.
func BenchmarkOriginOf(b *testing.B) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "9.9.9.9, 127.0.0.2")
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	b.ReportAllocs()
	for b.Loop() {
		originOf(r, trusted)
	}
}
