package detection_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// watched is what the proxy's own windows and governor make of a shape's load, evenly spread over four backends; times
// are virtual. offset is by how much the windows and the measured load miss each other. A backend that an event fails
// answers with errors, one that it slows down is slower by so much.
func watched(t *testing.T, shape loadtest.Shape, window, offset time.Duration) (started time.Time, seen []traffic.Snapshot) {
	t.Helper()
	rs := rules.Default()
	rs.Detection.Window = window
	governor, now := steering.New(rs, "test"), int64(time.Hour)
	w := traffic.NewWindow(now, window, rs.Detection.LatencySlopeWindows)
	begins := time.Duration(now) + window + offset // a warm-up comes before
	started = time.Unix(0, int64(begins))
	var live []traffic.Live
	for _, id := range []string{"server-1", "server-2", "server-3", "server-4"} {
		live = append(live, traffic.Live{ID: id, Healthy: true})
	}
	credit, sent := 0.0, 0
	const step = 5 * time.Millisecond
	for at := time.Duration(now); at < begins+shape.Duration()+window; at += step {
		if into := at - time.Duration(now); into > 0 && into%window == 0 {
			s := governor.Evaluate(time.Unix(0, int64(at)), w.Snapshot(int64(at), time.Unix(0, int64(at)), live)).Snapshot
			seen = append(seen, s)
		}
		rate := shape.Rate(at - begins)
		if at < begins {
			rate = shape.Phases[0].From
		}
		for credit += rate * step.Seconds(); credit >= 1; credit-- {
			id := live[sent%4].ID
			latency, outcome := 60*time.Millisecond, traffic.Success
			for _, e := range shape.Events {
				if e.Backend != id || at-begins < time.Duration(e.At) {
					continue
				}
				latency, outcome = 60*time.Millisecond, traffic.Success
				switch e.Action {
				case loadtest.ActionSlowdown:
					latency *= 12
				case loadtest.ActionFail:
					outcome = traffic.Failure
				}
			}
			w.Backend(id).Record(int64(at), latency, outcome)
			sent++
		}
	}
	return started, seen
}

// The truth is no invention: under a load without noise, the proxy's own code and default thresholds name nearly all of
// it, and so does the local classifier, wherever the windows fall.
func TestTheTruthIsWhatTheProxyCanSee(t *testing.T) {
	for _, name := range []string{"steady", "burst", "gradual", "failure"} {
		shape, err := loadtest.Load(name)
		require.NoError(t, err)
		var proxy, local []detection.Report
		for offset := time.Duration(0); offset < 10*time.Second; offset += 2600 * time.Millisecond {
			started, seen := watched(t, shape, 10*time.Second, offset)
			r, known := detection.Of(shape, started, seen)
			require.True(t, known)
			labels := advisor.LocalLabels([][]traffic.Snapshot{detection.Measured(shape, started, seen)})
			r = r.Labelled(labels.Author, labels.States[0])
			proxy, local = append(proxy, r), append(local, r)
		}
		named, labelled := detection.Named(proxy...), detection.Classified(local...)
		t.Logf("%s: the proxy %d of %d, the local classifier %d of %d, %d across; %v %v", name, named.Agreed(), named.Windows(), labelled.Agreed(), labelled.Windows(), detection.Across(proxy...), named, labelled)
		require.Greater(t, named.Windows(), 10, name)
		require.GreaterOrEqual(t, float64(named.Agreed()), 0.7*float64(named.Windows()), name)
		require.GreaterOrEqual(t, float64(labelled.Agreed()), 0.8*float64(labelled.Windows()), name)
	}
}
