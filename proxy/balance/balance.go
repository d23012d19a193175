// Package balance chooses which backend serves a request.
//
// A Picker only picks: it neither forwards nor checks health nor counts requests. What it picks by (in-flight
// requests, response times, failures) lives in Backend, is kept by Begin and End for every request whatever
// the algorithm, and so is warm when rules switch to another one.
package balance

import "time"

// Picker is one algorithm over one fixed set of available backends. When availability, weights or the
// set itself change, a new Picker is built with New; pickers never look at health.
type Picker interface {
	// Pick chooses a backend. key identifies the client (Key of its address); only IP_HASH and
	// CONSISTENT_HASH use it. nil means that the set is empty. Safe for concurrent use, allocates nothing.
	Pick(key uint64) *Backend
}

// Outcome is how a proxied request ended, as far as its backend is concerned.
type Outcome uint8

const (
	// Success is an answer that arrived whole and below 500.
	Success Outcome = iota
	// Failure is a refused or broken connection, a timeout or a 5xx; its elapsed time never makes the
	// backend look fast.
	Failure
	// Aborted is a request that the client gave up: neither success nor failure, its elapsed time a lower bound.
	Aborted
)

// Options tunes the algorithms that have something to tune; the zero value means the defaults.
type Options struct {
	// Decay is the time constant of P2C_PEAK_EWMA's moving average; 10 s by default.
	Decay time.Duration
	// Now is the monotonic clock in nanoseconds, the same that End is given; the process clock (Now) by
	// default, a virtual one in a simulation.
	Now func() int64
	// Seed makes the random choices repeatable when it is not 0.
	Seed uint64
}

// started is the zero of the process clock.
var started = time.Now()

// Now is the process clock: monotonic nanoseconds since the program started, never 0.
func Now() int64 { return int64(time.Since(started)) + 1 }
