package traffic

import (
	"math/bits"
	"time"
)

// The log-linear histogram: every power of two microseconds is cut into 16 equal parts, so that a bin is never
// wider than 1/16 (6%) of its value, which a 15% rule can tell apart. Bins reach from 1 µs to 134 s.
const (
	subBits = 4
	sub     = 1 << subBits // bins per power of two
	maxBits = 27           // 2^27 µs = 134 s; what is slower counts in the last bin
	bins    = (maxBits - subBits + 1) * sub
)

// Histogram counts durations in log-linear bins. The zero value is empty.
type Histogram [bins]uint64

// bin is where a duration counts.
func bin(d time.Duration) int {
	us := uint64(max(d, 0)) / uint64(time.Microsecond)
	if us < sub {
		return int(us)
	}
	e := bits.Len64(us) - subBits - 1
	return min(e*sub+int(us>>e), bins-1)
}

// edge is the lower bound of a bin, in microseconds; edge(i+1) is its upper bound.
func edge(i int) float64 {
	if i < sub {
		return float64(i)
	}
	e := i/sub - 1
	return float64(uint64(i-e*sub) << e)
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h {
		n += c
	}
	return n
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) { h[bin(d)]++ }

// merge adds the counts of o.
func (h *Histogram) merge(o *Histogram) {
	for i, c := range o {
		h[i] += c
	}
}

// QuantileMS is the duration in milliseconds below which the share q, in [0, 1], of all durations lie; within a
// bin they are taken as evenly spread. 0 when the histogram is empty.
func (h *Histogram) QuantileMS(q float64) float64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := q * float64(n)
	var below float64
	for i, c := range h {
		if c > 0 && below+float64(c) >= rank {
			share := max(rank-below, 0) / float64(c)
			return (edge(i) + share*(edge(i+1)-edge(i))) / 1000
		}
		below += float64(c)
	}
	return edge(bins) / 1000
}
