package traffic

import (
	"fmt"
	"math"
	"time"
)

// A backend is judged by at least MinVolume requests in the window and, for errors, at least minErrors of them:
// no verdict rests on a handful of requests.
const (
	MinVolume = 10
	minErrors = 3
)

// risingWindows is for how many windows in a row latency and rate have to rise before a growth that no single
// window shows counts as GRADUAL_INCREASE.
const risingWindows = 3

// tiny keeps a threshold of 0 from dividing by it.
const tiny = 1e-3

// maxConfidence is the most that a classification can claim, LeastConfidence the least.
const (
	maxConfidence   = 0.99
	LeastConfidence = 0.5
)

// Classify names the state of a snapshot: the first that holds of OVERLOADED_NODE, LOW_TRAFFIC, SPIKE,
// GRADUAL_INCREASE and HIGH_STABLE. The first window has nothing to be compared with: it is LOW_TRAFFIC or
// HIGH_STABLE unless a backend is overloaded.
func Classify(d Detection, s Snapshot) Classification {
	for _, check := range []func(Detection, Snapshot) (Classification, bool){overloaded, low, spike, gradual} {
		if c, holds := check(d, s); holds {
			c.Confidence = min(max(c.Confidence, 0), maxConfidence)
			return c
		}
	}
	return stable(d, s)
}

// overloaded holds when a backend has more errors than overload_error_rate, or when its average latency exceeds
// overload_latency and is at least overload_latency_factor times its long-run average. Confidence: 0.7 + 0.15 ×
// (r − 1), where r is how many times the error rate is over its threshold, or the latency over the higher of its
// two bounds; of the worst backend.
//
// A backend out of rotation takes no requests and falls under MinVolume by itself. One that died within the
// window has left figures and is judged by them, though it isn't healthy any more.
func overloaded(d Detection, s Snapshot) (worst Classification, holds bool) {
	for _, b := range s.Backends {
		r, why := overload(d, b)
		if c := 0.7 + 0.15*(r-1); r > 0 && (!holds || c > worst.Confidence) {
			worst, holds = Classification{OverloadedNode, c, why}, true
		}
	}
	return worst, holds
}

// overload is how many times a backend is over its threshold, and the figures; 0 when it isn't.
func overload(d Detection, b BackendSnapshot) (float64, string) {
	if b.Requests < MinVolume {
		return 0, ""
	}
	if b.Errors >= minErrors && b.ErrorRate > d.OverloadErrorRate {
		return b.ErrorRate / max(d.OverloadErrorRate, tiny),
			fmt.Sprintf("%s: error rate %.1f%% (threshold %.1f%%)", b.ID, 100*b.ErrorRate, 100*d.OverloadErrorRate)
	}
	bound := float64(d.OverloadLatency) / float64(time.Millisecond)
	usual := d.OverloadLatencyFactor * b.LongAvgLatencyMS
	if b.LongAvgLatencyMS == 0 || b.Requests-b.Errors < MinVolume || b.AvgLatencyMS <= bound || b.AvgLatencyMS < usual {
		return 0, ""
	}
	return b.AvgLatencyMS / max(bound, usual), fmt.Sprintf("%s: avg latency %.0f ms (threshold %.0f ms), %.1f× its usual %.0f ms (threshold %.1f×)",
		b.ID, b.AvgLatencyMS, bound, b.AvgLatencyMS/b.LongAvgLatencyMS, b.LongAvgLatencyMS, d.OverloadLatencyFactor)
}

// low holds below low_traffic_rps. Confidence: 0.5 + 0.5 × (1 − rps / low_traffic_rps).
func low(d Detection, s Snapshot) (Classification, bool) {
	if s.RPS >= d.LowTrafficRPS {
		return Classification{}, false
	}
	why := fmt.Sprintf("rps %.1f (threshold %.1f)", s.RPS, d.LowTrafficRPS)
	return Classification{LowTraffic, 0.5 + 0.5*(1-s.RPS/d.LowTrafficRPS), why}, true
}

// spike holds when the rps change rate reaches spike_rate, and when traffic comes from nothing. Confidence:
// min(0.99, 0.7 + 0.15 × rate); 0.99 from nothing, whose rate is +Inf.
func spike(d Detection, s Snapshot) (Classification, bool) {
	if s.FromZero {
		why := fmt.Sprintf("rps 0.0 → %.1f, from nothing (threshold %.2f)", s.RPS, d.SpikeRate)
		return Classification{Spike, maxConfidence, why}, true
	}
	if s.RPSChangeRate == nil || *s.RPSChangeRate < d.SpikeRate {
		return Classification{}, false
	}
	return Classification{Spike, SpikeConfidence(*s.RPSChangeRate), grew(s, d.SpikeRate)}, true
}

// SpikeConfidence is min(0.99, 0.7 + 0.15 × rate).
func SpikeConfidence(rate float64) float64 { return min(maxConfidence, 0.7+0.15*max(rate, 0)) }

// gradual holds when the rps change rate reaches gradual_increase_rate, or when latency and rps have both been
// rising for three windows in a row. Confidence by the rate: 0.6 at gradual_increase_rate, growing evenly to 0.95
// at spike_rate; by the trend, which no single window proves: 0.5 + 0.2 × rate / gradual_increase_rate.
func gradual(d Detection, s Snapshot) (Classification, bool) {
	if s.RPSChangeRate == nil {
		return Classification{}, false
	}
	r := *s.RPSChangeRate
	switch {
	case r >= d.GradualIncreaseRate:
		way := (r - d.GradualIncreaseRate) / max(d.SpikeRate-d.GradualIncreaseRate, tiny)
		return Classification{GradualIncrease, 0.6 + 0.35*min(way, 1), grew(s, d.GradualIncreaseRate)}, true
	case s.Rising >= risingWindows && r > 0 && s.LatencySlope > 0:
		why := fmt.Sprintf("latency %+.1f ms a window and rps rate %+.2f, rising for %d windows", s.LatencySlope, r, s.Rising)
		return Classification{GradualIncrease, 0.5 + 0.2*r/max(d.GradualIncreaseRate, tiny), why}, true
	}
	return Classification{}, false
}

// stable is what remains. Confidence: the lower of 0.5 + 0.5 × (rps / low_traffic_rps − 1), how far from low
// traffic, and 0.5 + 0.5 × (1 − |rate| / gradual_increase_rate), how far from a change, each term in [0.5, 1];
// the latter is 0.75 in the first window, which has no rate. A steep fall is thus doubtful.
func stable(d Detection, s Snapshot) Classification {
	c := Classification{State: HighStable, Confidence: 0.75}
	c.Reason = fmt.Sprintf("rps %.1f, nothing to compare with yet", s.RPS)
	if s.RPSChangeRate != nil {
		off := math.Abs(*s.RPSChangeRate) / max(d.GradualIncreaseRate, tiny)
		c.Confidence = 0.5 + 0.5*max(1-off, 0)
		c.Reason = grew(s, d.GradualIncreaseRate)
	}
	if d.LowTrafficRPS > 0 {
		c.Confidence = min(c.Confidence, 0.5+0.5*min(s.RPS/d.LowTrafficRPS-1, 1))
	}
	c.Confidence = min(max(c.Confidence, 0), maxConfidence)
	return c
}

// grew says how the rate moved.
func grew(s Snapshot, threshold float64) string {
	return fmt.Sprintf("rps %.1f → %.1f, rate %+.2f (threshold %.2f)", s.PreviousRPS, s.RPS, *s.RPSChangeRate, threshold)
}
