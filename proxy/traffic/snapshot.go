// Package traffic measures what the traffic does and names it.
//
// Window counts requests in a sliding span, Snapshot is its sum at one instant, and Classify names the
// traffic state of a snapshot. Nothing here reads a clock or does I/O: time is an argument.
package traffic

import "time"

// Snapshot is the metrics of one window, at one instant. Latencies are milliseconds, rates are per second,
// the error rate is a share in [0, 1].
type Snapshot struct {
	Seq      uint64        `json:"seq"` // the proxy's own counter, from 1; gapless within one boot
	At       time.Time     `json:"at"`
	Window   time.Duration `json:"window_ns"`
	Requests uint64        `json:"requests"`
	Errors   uint64        `json:"errors"`

	RPS         float64 `json:"rps"`
	PreviousRPS float64 `json:"previous_rps"` // of the window before, which does not overlap this one
	// RPSChangeRate is (rps - previous rps) / previous rps; nil when there is no previous window, and nil
	// with FromZero when the previous one was empty and this one is not (+Inf).
	RPSChangeRate *float64 `json:"rps_change_rate"`
	FromZero      bool     `json:"from_zero,omitempty"`

	AvgLatencyMS float64 `json:"avg_latency_ms"`
	P50MS        float64 `json:"p50_ms"`
	P95MS        float64 `json:"p95_ms"`
	P99MS        float64 `json:"p99_ms"`
	// LatencySlope is the least-squares slope of the average latency over the last windows, in ms per window.
	LatencySlope float64 `json:"latency_slope_ms"`
	// Rising is for how many windows in a row, this one included, latency and rps have both been rising.
	Rising    int     `json:"rising_windows,omitempty"`
	ErrorRate float64 `json:"error_rate"`
	InFlight  int64   `json:"in_flight"`

	Backends []BackendSnapshot `json:"backends"`

	State        State  `json:"state"`
	Algorithm    string `json:"algorithm"` // in force when the snapshot was taken
	RulesVersion int    `json:"rules_version"`
}

// BackendSnapshot is one backend's part of a Snapshot.
type BackendSnapshot struct {
	ID           string  `json:"id"`
	Healthy      bool    `json:"healthy"`
	Requests     uint64  `json:"requests"`
	Errors       uint64  `json:"errors"`
	AvgLatencyMS float64 `json:"avg_latency_ms"`
	P95MS        float64 `json:"p95_ms"`
	// LongAvgLatencyMS is the backend's own long-run average: what is normal for it. 0 while unknown.
	LongAvgLatencyMS float64 `json:"long_avg_latency_ms"`
	ErrorRate        float64 `json:"error_rate"`
	InFlight         int64   `json:"in_flight"`
}

// Detection is the thresholds that separate the states: the `detection` part of a rule set.
type Detection struct {
	Window                time.Duration `json:"window" yaml:"window"`                                   // 1s..5m
	LowTrafficRPS         float64       `json:"low_traffic_rps" yaml:"low_traffic_rps"`                 // below it the choice of algorithm means nothing
	GradualIncreaseRate   float64       `json:"gradual_increase_rate" yaml:"gradual_increase_rate"`     // rps change rate
	SpikeRate             float64       `json:"spike_rate" yaml:"spike_rate"`                           // rps change rate
	OverloadErrorRate     float64       `json:"overload_error_rate" yaml:"overload_error_rate"`         // of one backend
	OverloadLatency       time.Duration `json:"overload_latency" yaml:"overload_latency"`               // average of one backend …
	OverloadLatencyFactor float64       `json:"overload_latency_factor" yaml:"overload_latency_factor"` // … and at least this many times its own long-run average
	LatencySlopeWindows   int           `json:"latency_slope_windows" yaml:"latency_slope_windows"`     // how many windows the slope spans
}

// Classification is the state of a snapshot, with how far past its threshold the traffic is.
type Classification struct {
	State      State   `json:"state"`
	Confidence float64 `json:"confidence"` // in [0, 0.99]
	Reason     string  `json:"reason"`     // the figures that decided, e.g. "rps 41.0 → 103.4, rate +1.52 (threshold 1.00)"
}
