package advisor

import (
	"context"
	"math"
	"slices"

	"retune/proxy/traffic"
)

// Bounds of the local classifier. They are relations within a series; no rule set's thresholds are among them.
const (
	risingStep    = 1.02 // a window that has this many times the rps of the one before goes on rising
	risenTotal    = 1.2  // a rise as a whole reaches this many times the rps that it began with …
	risenScatter  = 3    // … and is this many standard deviations of counted requests
	steepPerStep  = 1.5  // a rise by this much a window is a spike, else it is gradual
	spikeEcho     = 1    // windows after a steep rise that still belong to it
	lowOfHighest  = 0.10 // under this share of the series' highest rps the traffic is low
	usualQuantile = 0.25 // of a backend's latencies over the series: what is usual for it
	nodeSlower    = 1.8  // times its usual, beyond what the other backends slowed down by
	nodeErrors    = 0.05 // error rate of one backend
	errorsAtLeast = 3    // errors: no label rests on fewer
)

// Classify labels without a model. It never fails. Unlike the proxy, which has to name each window when it ends, it looks at a series
// as a whole: a rise is followed to its end before it is called steep or gradual, low is low against the series'
// highest, and a backend is overloaded against its own usual latency over the whole series and against what the others
// did meanwhile.
func (local) Classify(_ context.Context, _ int64, series [][]traffic.Snapshot) (Labels, error) {
	return LocalLabels(series), nil
}

// LocalLabels is what the generator `local` labels: for whoever has no model, or one that failed.
func LocalLabels(series [][]traffic.Snapshot) Labels {
	l := Labels{Author: "local"}
	for _, s := range series {
		l.States = append(l.States, labelled(s))
	}
	return l
}

// labelled gives each window its state; what is checked later wins.
func labelled(series []traffic.Snapshot) []traffic.State {
	states := make([]traffic.State, len(series))
	for i := range states {
		states[i] = traffic.HighStable
	}
	for from := 0; from < len(series); {
		to := riseFrom(series, from)
		if to > from {
			label(states, series, from, to)
		}
		from = max(to, from+1)
	}
	highest := 0.0
	for _, s := range series {
		highest = max(highest, s.RPS)
	}
	overloaded := overloadedWindows(series)
	for i, s := range series {
		switch {
		case overloaded[i]:
			states[i] = traffic.OverloadedNode
		case s.RPS < lowOfHighest*highest:
			states[i] = traffic.LowTraffic
		}
	}
	return states
}

// riseFrom is the window with which a rise ends that begins after window from; from itself when there is none.
func riseFrom(series []traffic.Snapshot, from int) int {
	to := from
	for to+1 < len(series) && series[to+1].RPS > series[to].RPS*risingStep {
		to++
	}
	a, b := series[from], series[to]
	gained, scatter := float64(b.Requests)-float64(a.Requests), math.Sqrt(float64(a.Requests+b.Requests))
	if b.RPS < risenTotal*a.RPS || gained <= risenScatter*scatter {
		return from
	}
	return to
}

// label marks the windows of one rise, which began after window from and ended with window to.
func label(states []traffic.State, series []traffic.Snapshot, from, to int) {
	base := series[from].RPS
	if perWindow := math.Pow(series[to].RPS/base, 1/float64(to-from)); perWindow < steepPerStep { // +Inf from nothing
		for i := from + 1; i <= to; i++ {
			states[i] = traffic.GradualIncrease
		}
		return
	}
	for i := from + 1; i <= min(to+spikeEcho, len(series)-1) && series[i].RPS >= steepPerStep*base; i++ {
		states[i] = traffic.Spike
	}
}

// overloadedWindows says in which windows one backend was slower than usual beyond the others, or failed requests.
func overloadedWindows(series []traffic.Snapshot) []bool {
	usual := usualLatencies(series)
	out := make([]bool, len(series))
	for i, s := range series {
		for _, b := range s.Backends {
			if b.Requests < traffic.MinVolume {
				continue
			}
			slower := slowed(b, usual) / max(1, othersSlowed(s, b.ID, usual))
			if slower >= nodeSlower || b.Errors >= errorsAtLeast && b.ErrorRate >= nodeErrors {
				out[i] = true
			}
		}
	}
	return out
}

// usualLatencies is what each backend's average latency usually is: a low quantile, so that hours of slowness do not
// become the usual.
func usualLatencies(series []traffic.Snapshot) map[string]float64 {
	seen := map[string][]float64{}
	for _, s := range series {
		for _, b := range s.Backends {
			if b.Requests >= traffic.MinVolume && b.AvgLatencyMS > 0 {
				seen[b.ID] = append(seen[b.ID], b.AvgLatencyMS)
			}
		}
	}
	usual := map[string]float64{}
	for id, latencies := range seen {
		slices.Sort(latencies)
		usual[id] = latencies[int(usualQuantile*float64(len(latencies)-1))]
	}
	return usual
}

// slowed is a backend's latency as a multiple of its usual; 0 when that is unknown.
func slowed(b traffic.BackendSnapshot, usual map[string]float64) float64 {
	if usual[b.ID] <= 0 || b.Requests < traffic.MinVolume {
		return 0
	}
	return b.AvgLatencyMS / usual[b.ID]
}

// othersSlowed is the median of what the other backends slowed down by; 0 when nothing is known of them.
func othersSlowed(s traffic.Snapshot, but string, usual map[string]float64) float64 {
	var all []float64
	for _, b := range s.Backends {
		if x := slowed(b, usual); b.ID != but && x > 0 {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
