package loadtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoadCost is what the built-in driver's child costs at a few rates, as CPU seconds per 100,000 requests;
// the target and the reader run beside it on the same machine.
func BenchmarkLoadCost(b *testing.B) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	for _, rate := range []float64{100, 500, 1000, 3000} {
		b.Run(fmt.Sprintf("rps=%.0f", rate), func(b *testing.B) {
			for b.Loop() {
				r := benchRun(b, Scenario{Shape: constant(rate, 5*time.Second), Target: target.URL})
				b.ReportMetric(r.DriverCPU*5/float64(r.Requests)*1e5, "cpu-s/100k")
				b.ReportMetric(100*r.DriverCPU, "%core")
				b.ReportMetric(r.P99MS, "p99-ms")
				b.ReportMetric(float64(r.Dropped), "dropped")
			}
		})
	}
}

// BenchmarkLoadCeiling is the highest of a ladder of rates at which a run is still evidence: under 1% dropped, and
// the driver on less than 80% of a core.
func BenchmarkLoadCeiling(b *testing.B) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	for b.Loop() {
		held := 0.0
		for rate := 2000.0; rate <= 40_000; rate *= 1.25 {
			r := benchRun(b, Scenario{Shape: constant(float64(int(rate)), 3*time.Second), Target: target.URL})
			b.Logf("%.0f rps: %.0f%% of a core, %d of %d dropped, p95 %.2f ms: %v", rate, 100*r.DriverCPU, r.Dropped, r.Planned, r.P95MS, r.Invalid)
			if len(r.Invalid) > 0 {
				break
			}
			held = rate
		}
		b.ReportMetric(held, "rps-held")
	}
}

// BenchmarkLoadStall is a stall of 2 s in 20 s at 200 rps as an open load sees it (1,011 ms in p95, by arithmetic: a
// tenth of the requests meet it, half of them wait a second or more) and as a closed one does.
func BenchmarkLoadStall(b *testing.B) {
	var until atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(time.Until(time.Unix(0, until.Load())))
	}))
	defer target.Close()
	for name, shape := range map[string]Shape{
		"open":   constant(200, 20*time.Second),
		"closed": {Name: "closed", Description: "Closed.", Clients: 5, Closed: &Closed{Users: 5, Think: Duration(25 * time.Millisecond), Duration: Duration(20 * time.Second)}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				stall := time.AfterFunc(8*time.Second, func() { until.Store(time.Now().Add(2 * time.Second).UnixNano()) })
				r := benchRun(b, Scenario{Shape: shape, Target: target.URL})
				stall.Stop()
				b.ReportMetric(r.P95MS, "p95-ms")
				b.ReportMetric(r.P99MS, "p99-ms")
				b.ReportMetric(float64(r.Requests), "requests")
				b.ReportMetric(float64(r.Dropped), "dropped")
			}
		})
	}
}

func benchRun(b *testing.B, s Scenario) Result {
	b.Helper()
	r, err := builtinRunner(b).Run(b.Context(), s, nil)
	require.NoError(b, err)
	return r
}
