package proxy

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scrape is the proxy's own metrics, without those of the Go runtime, which move by themselves.
func (r *running) scrape() string {
	r.t.Helper()
	_, text := r.call("GET", "/metrics", "")
	var own []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, namespace) {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

// A gauge of the system before this one changed by being read.
func TestScrapingChangesNothing(t *testing.T) {
	p := start(t, nil, backend(t, says("a")), backend(t, says("b")))
	for range 10 {
		p.get("/")
	}
	first := p.scrape()
	for range 5 {
		require.Equal(t, first, p.scrape())
	}
}

func TestMetricsTellWhatHappened(t *testing.T) {
	p := start(t, nil, backend(t, says("a")), backend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	for range 8 {
		p.get("/")
	}
	p.raw("GET / HTTP/1.1\nHost: x\n\n")
	p.must(200, nil, "PUT", "/alb/mode", `{"mode":"fixed","algorithm":"RANDOM"}`)
	got := p.scrape()
	for _, want := range []string{
		`requests_total{algorithm="ROUND_ROBIN",backend="a"} 4`,
		`requests_total{algorithm="ROUND_ROBIN",backend="b"} 4`,
		`errors_total{algorithm="ROUND_ROBIN",backend="b"} 4`,
		`backend_selection_total{algorithm="ROUND_ROBIN",backend="a"} 4`,
		`response_time_seconds_count{algorithm="ROUND_ROBIN",backend="a"} 4`,
		`active_connections{backend="a"} 0`,
		`server_health{backend="a"} 1`,
		`none_healthy 0`,
		`own_answers_total{cause="malformed_request"} 1`,
		`switches_total{algorithm="RANDOM",from="ROUND_ROBIN"} 1`,
		`traffic_state{state="LOW_TRAFFIC"} 1`,
		`traffic_state{state="SPIKE"} 0`,
		`algorithm_info{algorithm="RANDOM"} 1`,
		`algorithm_info{algorithm="ROUND_ROBIN"} 0`,
		`rules_version 1`,
	} {
		require.Contains(t, got, namespace+"_"+want+"\n")
	}
	require.Regexp(t, regexp.MustCompile(`retune_proxy_algorithm_duration_seconds_bucket\{algorithm="ROUND_ROBIN"`), got)
	p.must(204, nil, "DELETE", "/alb/backends/b", "")
	require.NotContains(t, p.scrape(), `backend="b"`, "the series of a removed backend go")
}
