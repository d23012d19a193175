package traffic

import "time"

// Outcome is how a request ended. The first three have the values of balance.Outcome.
type Outcome uint8

// The outcomes.
const (
	// Success is an answer that arrived whole and below 500; it alone gives a latency sample.
	Success Outcome = iota
	// Failure is a refused or broken connection, a timeout or a 5xx.
	Failure
	// Aborted is a request that the client gave up: a request, but no error and no latency sample.
	Aborted
	// Retried is a failed attempt that was tried again elsewhere: an error of its backend, but neither a
	// request nor an error of the proxy.
	Retried
)

// Live is what a caller knows of a backend and a Window does not.
type Live struct {
	ID       string
	Healthy  bool
	InFlight int64
}

// Window sums the requests of a sliding span. Times are the monotonic clock in nanoseconds.
type Window struct{}

// Tally counts one backend's requests.
type Tally struct{}

// NewWindow makes an empty window of the given length that starts now; slope is how many windows
// Snapshot.LatencySlope spans.
func NewWindow(now int64, length time.Duration, slope int) *Window { return &Window{} }

// Backend is the tally of the backend with this id, made at the first call; the caller keeps it beside its
// backend. The id "" is for requests that reached no backend: they count in the totals alone.
func (w *Window) Backend(id string) *Tally { return &Tally{} }

// Record counts one request that has just ended. Lock-free, allocates nothing.
func (t *Tally) Record(now int64, elapsed time.Duration, o Outcome) {}

// Snapshot sums the window that ends now. live names the backends to report, in that order. State, Algorithm
// and RulesVersion are left to the caller (steering.Governor.Evaluate fills them in).
func (w *Window) Snapshot(now int64, at time.Time, live []Live) Snapshot { return Snapshot{} }

// Reset forgets everything, the backends' long-run averages too, and starts the first window now.
func (w *Window) Reset(now int64) {}

// Resize changes the length and the slope's span; an unchanged length keeps every count, another one starts the
// windows anew (the long-run averages stay).
func (w *Window) Resize(now int64, length time.Duration, slope int) {}
