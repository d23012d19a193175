package sim

import (
	"slices"
	"time"
)

// Result is what the clients saw of the measured part.
type Result struct {
	Requests int
	Failures int
	RPS      float64   // answers a second while it was measured, failures left out
	Share    []float64 // of the requests, by backend
	Failed   []int     // by backend
	Switches int       // of the algorithm, by rules
	latency  []int64   // of successes, sorted
}

// Quantile is the response time that the share q of the successful requests did not exceed; 0 if there was
// none.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.latency) == 0 {
		return 0
	}
	return time.Duration(r.latency[min(int(q*float64(len(r.latency))), len(r.latency)-1)])
}

// Mean is the average response time of the successful requests; 0 if there was none.
func (r Result) Mean() time.Duration {
	sum := int64(0)
	for _, l := range r.latency {
		sum += l
	}
	return time.Duration(sum / int64(max(len(r.latency), 1)))
}

// ErrorRate is the share of the requests that failed.
func (r Result) ErrorRate() float64 { return float64(r.Failures) / float64(max(r.Requests, 1)) }

func (w *world) result() Result {
	r := Result{Requests: len(w.done), Share: make([]float64, len(w.servers)), Failed: make([]int, len(w.servers)), Switches: w.switches}
	for _, a := range w.done {
		r.Share[a.server]++
		if a.failed {
			r.Failures++
			r.Failed[a.server]++
			continue
		}
		r.latency = append(r.latency, a.took)
	}
	for i := range r.Share {
		r.Share[i] /= float64(max(r.Requests, 1))
	}
	slices.Sort(r.latency)
	r.RPS = float64(w.answered) / w.setup.Measured.Seconds()
	return r
}
