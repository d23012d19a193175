package advisor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/detection"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/ruleversions"
)

func TestEachFigureOfAReasonIsLookedUp(t *testing.T) {
	e := evidence()
	e.Tried = []Attempt{{Version: 2, Outcome: "rolled_back", Why: "p95 in burst 500 ms → 777 ms, +55.4% [+41%, +79%], limit +15%, 3 pairs"}}
	rate := 1.52
	e.Series = []Point{{Scenario: "burst", AtS: 30, RPS: 103.4, RPSChangeRate: &rate, P95MS: 655},
		{Scenario: "burst", AtS: 40, RPS: 138.8, P95MS: 655}}
	e.Switches = []Switch{{Scenario: "burst", AtS: 32, From: balance.RoundRobin, To: balance.LeastConnections, Before: Figures{RPS: 100, P95MS: 655, ErrorRate: 0.02}, After: Figures{RPS: 99, P95MS: 431, ErrorRate: 0.001}, Confident: 0.93}}
	e.Detection = &Detection{Across: 25, Suggestions: []detection.Suggestion{suggestion("detection.spike_rate", "1", "0.5", 3)}}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"p95 in burst 412 ms with LEAST_CONNECTIONS, 650 ms with ROUND_ROBIN", nil},
		{"p95 in burst is 37% lower with LEAST_CONNECTIONS than with ROUND_ROBIN", nil},
		{"p95 in burst is 36.6% lower with LEAST_CONNECTIONS than with ROUND_ROBIN", nil},
		{"p95 in burst is 50% lower with LEAST_CONNECTIONS than with ROUND_ROBIN", []string{"50%"}},
		{"LEAST_CONNECTIONS takes 238 ms off ROUND_ROBIN's p95 in burst", nil},
		{"ROUND_ROBIN is 1.58x LEAST_CONNECTIONS in burst", nil},
		{"burst: rps 103.4, rate +1.52 (threshold 1.00), confidence 0.93", nil},
		{"burst: rps 104.9", []string{"104.9"}},
		{"a cooldown of 10s and 2 windows hold P2C_PEAK_EWMA off, as v9 and server-1 showed at p99", nil},
		{"overload_latency is 500 ms, or 0.5 s", nil},
		{"kept v2 out: 777 ms, +55.4%", nil},
		{"error rate 1.2% in burst", nil},
		{"error rate 1.2% in steady", []string{"1.2%"}}, // true, but of burst
		{"the error rate fell by 1.9 points in burst", nil},
		{"60% of burst's windows are SPIKE", nil},
		{"an 87% better cache hit rate, 12345 rps and 9.75 s", []string{"87%", "12345 rps", "9.75 s"}},
		{"1,000,000 ms", []string{"1,000,000 ms"}},
		{"431-655 ms in burst", nil},
		{"431-656.5 ms in burst", nil}, // within 1%
		{"431-700 ms in burst", []string{"700 ms"}},
		{"", nil},
		// spellings
		{"p95 in burst 0.412 s, or 0,412 s, or 412msec, or 412 milliseconds, or ٤١٢ ms with LEAST_CONNECTIONS", nil},
		{"p95 in burst ４１３９ ms, or 4.139e3 ms, with LEAST_CONNECTIONS", []string{"4139 ms", "4.139e3 ms"}},
		{"10k rps, 1e308 rps, 9e999 rps, 35pct", []string{"10k rps", "1e308 rps", "9e999 rps", "35pct"}},
		{"1\u202f000\u202f000 ms, 1'000'000 ms, 12,5 ms", []string{"1\u202f000\u202f000 ms", "1'000'000 ms", "12,5 ms"}},
		{"a cooldown of 1m30s, or 0.5 h", []string{"1m30s", "0.5 h"}},
		{"60 per cent, or a share of 0.6, of burst's windows", nil},
		{"the error rate fell by −1.9 percentage points, 1.9 pp, in burst", nil},
		{"412–655 ms in burst, 412 to 656 ms", nil},
		{"412–712 ms in burst", []string{"712 ms"}},
		{"5xx and 4xx, the 2nd window, P2C_PEAK_EWMA, p99.9, v1.5, server-12", nil},
		{"ROUND_ROBIN is 1.58-fold LEAST_CONNECTIONS in burst, 1.9 times it", []string{"1.9 times"}},
		// what a text names without a unit
		{"p95 in steady 23 ms, 23 rps, 23 s, 23×, 23%", []string{"23 ms", "23 rps", "23 s", "23×", "23%"}},
		{"0.5 names 23 of 26 right, 3 pairs", nil},
		// several metrics
		{"p95 in burst 655 ms at 140 req/s, or 140 requests per second, 140 requests/s, 140 qps, 140 requests", nil},
		{"p95 in burst 655 ms, average 210 ms, mean 210 ms, 99th percentile 900 ms", nil},
		{"140 rps in burst, 1.2% failed", nil},
		{"140 rps at 210 ms in burst", nil},
		{"LEAST_CONNECTIONS in failure is 37% lower than ROUND_ROBIN", nil}, // the scenario's name names no metric
		{"p95 in burst 210 ms", []string{"210 ms"}},
		{"p95 in burst 140", []string{"140"}},
		{"average in burst 655 ms", []string{"655 ms"}},
		{"throughput in burst is 37% lower with LEAST_CONNECTIONS than with ROUND_ROBIN", []string{"37%"}},
		{"25 windows lie across two states, 28 do not", []string{"28"}},
		// what follows from two figures
		{"burst's p95 is 2.15 times steady's", nil},
		{"p95 in burst is 2.15 times as high", []string{"2.15 times"}}, // it doesn't say as what
		{"in burst rps rose by 35.4 from 103.4 to 138.8", nil},
		{"in burst rps rose by 35.4", []string{"35.4"}},
	} {
		got := CheckReasons([]ruleversions.Reason{{Path: "rules.SPIKE", Text: c.text}}, e, e.Champion)
		require.Equal(t, c.want, got[0].Unsupported, c.text)
	}
}

func TestARoundFigureIsNotEveryFigureNearIt(t *testing.T) {
	for text, want := range map[string]bool{
		"655 ms": true, "0.66 s": true, "0.7 s": true, "6.55e2 ms": true, "66e1 ms": true, "0.66k ms": true,
		"0e5 ms": false, "1e3 ms": false, "7e2 ms": false, "1k ms": false, "0.7k ms": false, "0.001M": false,
	} {
		require.Equal(t, want, figuresIn(text)[0].is(known{value: 655, quantity: latency}), text)
	}
}

func TestCheckReasonsLeavesItsInputAlone(t *testing.T) {
	in := []ruleversions.Reason{{Text: "99999 rps"}}
	out := CheckReasons(in, evidence(), rules.Default())
	require.Empty(t, in[0].Unsupported)
	require.Equal(t, []string{"99999 rps"}, out[0].Unsupported)
}

// A model may write a novel of figures; looking them up stays quick.
func BenchmarkCheckReasons(b *testing.B) {
	e := evidence()
	for _, scenario := range []string{"steady", "burst"} {
		for i := range 12 {
			e.Series = append(e.Series, Point{Scenario: scenario, AtS: float64(i), RPS: 100 + float64(i), P95MS: 400 + 7*float64(i)})
		}
	}
	text := ""
	for i := range 85 {
		text += fmt.Sprintf("%d.%d%% ", 111+i, i)
	}
	for b.Loop() {
		CheckReasons([]ruleversions.Reason{{Text: text}}, e, e.Champion)
	}
}
