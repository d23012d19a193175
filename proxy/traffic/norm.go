package traffic

import (
	"math"
	"time"
)

// The long-run average of a backend. It is a plain mean over its first normWarmUp of service and an average that
// decays by normDecay from then on: long against a window, so that an overload of a minute or two doesn't become
// the norm while it lasts. Buckets enter it when they have left the window, so a window is never compared with itself.
const (
	normDecay  = 5 * time.Minute
	normWarmUp = 30 * time.Second
)

// norm is a backend's long-run average latency. The zero value knows nothing.
type norm struct {
	ms      float64
	age     time.Duration // of service that it has taken in
	samples uint64
}

// fold takes in a span of service with n samples of the given mean.
func (a *norm) fold(span time.Duration, ms float64, n uint64) {
	if n == 0 {
		return
	}
	a.samples += n
	a.age += span
	alpha := -math.Expm1(-span.Seconds() / normDecay.Seconds())
	if a.age <= normWarmUp {
		alpha = max(alpha, span.Seconds()/a.age.Seconds())
	}
	a.ms += min(alpha, 1) * (ms - a.ms)
}

// known is the average in milliseconds; 0 while it rests on a handful of requests.
func (a *norm) known() float64 {
	if a.samples < MinVolume {
		return 0
	}
	return a.ms
}
