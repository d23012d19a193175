package balance

import (
	"math"
	"sync/atomic"
)

// estimate is a moving value and the instant of its last change, packed into one word so that both are read
// and updated together without a lock: float32 bits above, ticks below. The zero value is unknown.
type estimate struct{ word atomic.Uint64 }

// A tick is 2^16 ns (66 µs). 32 bits of them wrap after 78 hours; ages are right up to half of that and
// count as 0 for the other half, which only puts off a decay.
const tickShift = 16

// smallest keeps a known value apart from unknown.
const smallest = 1

func pack(v float64, now int64) uint64 {
	return uint64(math.Float32bits(float32(v)))<<32 | uint64(uint32(now>>tickShift))
}

// value is the value, 0 if unknown.
func (e *estimate) value() float64 { return valueOf(e.word.Load()) }

// read gives the value and the time since its last change, in nanoseconds, never negative.
func (e *estimate) read(now int64) (value, age float64) {
	word := e.word.Load()
	return valueOf(word), ageOf(word, now)
}

func valueOf(word uint64) float64 { return float64(math.Float32frombits(uint32(word >> 32))) }

func ageOf(word uint64, now int64) float64 {
	ticks := int32(uint32(now>>tickShift) - uint32(word))
	return float64(max(ticks, 0)) * (1 << tickShift)
}

// known reports whether there was a sample yet.
func (e *estimate) known() bool { return e.word.Load() != 0 }

// update replaces the value by what f makes of it (0 if unknown) and its age. f may run more than once.
func (e *estimate) update(now int64, f func(value, age float64) float64) {
	for {
		old := e.word.Load()
		if e.word.CompareAndSwap(old, pack(max(f(valueOf(old), ageOf(old, now)), smallest), now)) {
			return
		}
	}
}

// move pulls the value towards a sample, as a moving average with time constant tau in nanoseconds that
// gives the newest sample at least the weight least.
func (e *estimate) move(now int64, sample, tau, least float64) {
	e.update(now, func(v, age float64) float64 {
		if v == 0 {
			return sample
		}
		return v + (sample-v)*max(1-decay(age/tau), least)
	})
}

// decay is e^-x to within 0.01 of it, with a fatter tail: (1 + x/32)^-32 takes a fraction of math.Exp's time.
// x is at least 0.
func decay(x float64) float64 {
	y := 1 / (1 + x/32)
	y *= y
	y *= y
	y *= y
	y *= y
	return y * y
}
