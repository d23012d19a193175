package traffic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// published is the detection part of the design's example rule file.
var published = Detection{
	Window: 10 * time.Second, LowTrafficRPS: 5, GradualIncreaseRate: 0.3, SpikeRate: 1,
	OverloadErrorRate: 0.1, OverloadLatency: 500 * time.Millisecond, OverloadLatencyFactor: 2, LatencySlopeWindows: 6,
}

func moved(previous, rps float64) Snapshot {
	s := Snapshot{RPS: rps}
	s.compare(previous)
	return s
}

func with(s Snapshot, b ...BackendSnapshot) Snapshot { s.Backends = b; return s }

func TestClassify(t *testing.T) {
	rising := moved(100, 110)
	rising.Rising, rising.LatencySlope = 3, 4
	fresh := Snapshot{RPS: 40}
	slow := BackendSnapshot{ID: "s3", Requests: 30, AvgLatencyMS: 900, LongAvgLatencyMS: 300}
	native := BackendSnapshot{ID: "s4", Requests: 30, AvgLatencyMS: 600, LongAvgLatencyMS: 500}
	unknown := BackendSnapshot{ID: "s3", Requests: 30, AvgLatencyMS: 900}
	quick := BackendSnapshot{ID: "s1", Requests: 30, AvgLatencyMS: 200, LongAvgLatencyMS: 50}
	failing := BackendSnapshot{ID: "s1", Requests: 40, Errors: 8, ErrorRate: 0.2}
	handful := BackendSnapshot{ID: "s1", Requests: 9, Errors: 9, ErrorRate: 1}
	oneError := BackendSnapshot{ID: "s1", Requests: 10, Errors: 2, ErrorRate: 0.2}
	edge := BackendSnapshot{ID: "s1", Requests: 100, Errors: 10, ErrorRate: 0.1}
	for name, c := range map[string]struct {
		s          Snapshot
		state      State
		confidence float64
	}{
		"idle":                                {Snapshot{}, LowTraffic, 0.99},
		"just under low":                      {moved(4.9, 4.9), LowTraffic, 0.51},
		"low though doubled":                  {moved(2, 4), LowTraffic, 0.6},
		"first window":                        {fresh, HighStable, 0.75},
		"steady":                              {moved(80, 80), HighStable, 0.99},
		"steady near low":                     {moved(6, 6), HighStable, 0.6},
		"a fall is doubtful":                  {moved(80, 20), HighStable, 0.5},
		"the design's spike":                  {moved(41, 103.4), Spike, 0.7 + 0.15*(62.4/41)},
		"exactly at spike":                    {moved(50, 100), Spike, 0.85},
		"a spike of ten":                      {moved(10, 110), Spike, 0.99},
		"from nothing":                        {moved(0, 50), Spike, 0.99},
		"from nothing to next to nothing":     {moved(0, 3), LowTraffic, 0.7},
		"exactly at gradual":                  {moved(100, 130), GradualIncrease, 0.6},
		"just under spike":                    {moved(100, 199.9), GradualIncrease, 0.949},
		"rising slowly, latency too":          {rising, GradualIncrease, 0.5 + 0.2*0.1/0.3},
		"errors of one backend":               {with(moved(80, 80), quick, failing), OverloadedNode, 0.85},
		"errors at the threshold":             {with(moved(80, 80), edge), HighStable, 0.99},
		"errors beat low traffic":             {with(moved(4, 4), failing), OverloadedNode, 0.85},
		"slow beyond both bounds":             {with(moved(80, 80), slow), OverloadedNode, 0.775},
		"slow by nature":                      {with(moved(80, 80), native), HighStable, 0.99},
		"slow, but nothing known of it":       {with(moved(80, 80), unknown), HighStable, 0.99},
		"four times its usual, but still low": {with(moved(80, 80), quick), HighStable, 0.99},
		"a handful of requests":               {with(moved(80, 80), handful), HighStable, 0.99},
		"two errors":                          {with(moved(80, 80), oneError), HighStable, 0.99},
		"overload in the first window":        {with(fresh, failing), OverloadedNode, 0.85},
	} {
		t.Run(name, func(t *testing.T) {
			got := Classify(published, c.s)
			require.Equal(t, c.state, got.State, got.Reason)
			require.InDelta(t, c.confidence, got.Confidence, 0.002, got.Reason)
			require.NotEmpty(t, got.Reason)
		})
	}
}

// PA-20: no backend is overloaded for the figures of a handful of requests, however bad they are, nor for being a
// little worse than others that hardly err at all.
func TestPA20IdleBackendsAreNoOutliers(t *testing.T) {
	for name, b := range map[string]BackendSnapshot{
		"every one of nine failed": {ID: "a", Requests: 9, Errors: 9, ErrorRate: 1},
		"two of ten failed":        {ID: "a", Requests: 10, Errors: 2, ErrorRate: 0.2},
		"nine were very slow":      {ID: "a", Requests: 9, AvgLatencyMS: 9000, LongAvgLatencyMS: 50},
		"at both thresholds":       {ID: "a", Requests: 100, Errors: 10, ErrorRate: 0.1, AvgLatencyMS: 450, LongAvgLatencyMS: 50},
		"1% beside 0.01%":          {ID: "a", Requests: 10_000, Errors: 100, ErrorRate: 0.01},
		"idle":                     {ID: "a"},
	} {
		perfect := BackendSnapshot{ID: "b", Requests: 10_000, Errors: 1, ErrorRate: 0.0001, AvgLatencyMS: 50, LongAvgLatencyMS: 50}
		require.Equal(t, HighStable, Classify(published, with(moved(80, 80), b, perfect)).State, name)
	}
}

func TestReasonNamesTheFigures(t *testing.T) {
	require.Equal(t, "rps 41.0 → 103.4, rate +1.52 (threshold 1.00)", Classify(published, moved(41, 103.4)).Reason)
}

func TestConfidenceIsAlwaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
		s := moved(f("previous", 1e5), f("rps", 1e5))
		s.Rising, s.LatencySlope = rapid.IntRange(0, 5).Draw(t, "rising"), f("slope", 100)-50
		n := rapid.Uint64Range(0, 1000).Draw(t, "n")
		e := rapid.Uint64Range(0, n).Draw(t, "errors")
		s.Backends = []BackendSnapshot{{Requests: n, Errors: e, ErrorRate: rate(e, n), AvgLatencyMS: f("avg", 1e5), LongAvgLatencyMS: f("long", 1e5)}}
		d := Detection{
			LowTrafficRPS: f("low", 100), GradualIncreaseRate: f("gradual", 2), SpikeRate: f("spike", 3),
			OverloadErrorRate: f("error rate", 1), OverloadLatency: time.Duration(f("latency", 1e10)), OverloadLatencyFactor: f("factor", 5),
		}
		c := Classify(d, s)
		if !(c.Confidence >= LeastConfidence && c.Confidence <= 0.99) || !c.State.Known() {
			t.Fatalf("%+v", c)
		}
	})
}
