package balance

import (
	"math"
	"sync/atomic"
)

const (
	// serviceGain is the least weight of one answer in the service time: about the last 40 count. After a
	// pause one counts for more, with the time constant serviceTau.
	serviceGain = 0.05
	serviceTau  = 3e9
	// firstSlots is believed before there is evidence. Too few makes a backend that was seldom needed look
	// full when another fails, too many lets its first queue grow to that length.
	firstSlots = 8
	// mostSlots bounds the concurrency that is believed in.
	mostSlots = 1 << 14
	// firstDoubt and leastDoubt are the variance of ln c: before the first answer, and at the least, as c may
	// change. scatter is the variance of one answer's relative error.
	firstDoubt = 0.3
	leastDoubt = 0.02
	scatter    = 0.3
	// unseen is the usual shortage below which c is so far beyond all that was in flight that nothing is known of
	// it, and it is let go: some fifty times.
	unseen = 0.02
	// worstError bounds what one answer may say: service times have long tails.
	worstError = 3
)

// capacity is what EXPECTED_COMPLETION knows of a backend: its service time s while it has a slot free, and
// its number of slots c, how many requests it works on at once. A server whose queue is first come, first
// served answers the k-th request in flight after
//
//	T(k) = s · max(1, k/c)
//
// Each answer is compared with what was expected of it. That answers are all too late or all too soon moves s;
// that they come later the shorter slots are, more than was expected, moves c. Told apart in this way the one
// does not pay for the other's errors: a backend that is always full, or never, says something of s alone.
type capacity struct {
	service estimate // nanoseconds; its age is that of the newest answer
	slots   slots
}

// concurrency is c, at least 1.
func (c *capacity) concurrency() float64 { return c.slots.count() }

// use is k/c: the part of the slots that are taken, over 1 if some wait.
func (c *capacity) use(load float64) float64 { return load / c.concurrency() }

// observe learns from one answer: load requests were in flight as it began, it took that many nanoseconds.
func (c *capacity) observe(now int64, load, took float64) {
	x := c.use(load)
	served := took / max(1, x)
	if s := c.service.value(); s != 0 {
		c.slots.learn(shortage(x), min(served/s-1, worstError))
	}
	c.service.move(now, served, serviceTau, serviceGain)
}

// shortage is how short slots were with x = k/c in flight, 0 to 1: the step at x = 1, so soft that an error in c is
// seen from afar.
func shortage(x float64) float64 { return x / (1 + x) }

// slots is the estimate of c in one word, so that it is read and changed as a whole: float32 bits of the count
// above, then doubt and usual as parts of 2^16 - 1. The zero value is what is believed without evidence.
type slots struct{ word atomic.Uint64 }

// belief is what the word of slots says.
type belief struct {
	count float64 // c, at least 1
	doubt float64 // the variance of its logarithm
	usual float64 // the moving average of shortage
}

// count is c alone, which is what each pick reads.
func (s *slots) count() float64 {
	if word := s.word.Load(); word != 0 {
		return valueOf(word)
	}
	return firstSlots
}

func believed(word uint64) belief {
	if word == 0 {
		return belief{firstSlots, firstDoubt, 0}
	}
	return belief{valueOf(word), float64(uint16(word>>16)) / math.MaxUint16, float64(uint16(word)) / math.MaxUint16}
}

func (b belief) pack() uint64 {
	return uint64(math.Float32bits(float32(b.count)))<<32 |
		uint64(b.doubt*math.MaxUint16+.5)<<16 | uint64(b.usual*math.MaxUint16+.5)
}

// learn takes in that an answer came off by that part of what was expected, with slots as short as they were:
// a step of a Kalman filter, long at first, short when c is known. Of two answers at once one may be lost.
func (s *slots) learn(short, off float64) {
	old := s.word.Load()
	b := believed(old)
	if old == 0 {
		b.usual = short
	}
	b.usual += (short - b.usual) * serviceGain
	more := short - b.usual // than usual
	gain := b.doubt * more / (b.doubt*more*more + scatter)
	if step := gain * off; step > 0 {
		b.count *= decay(step)
	} else {
		b.count /= decay(-step)
	}
	if b.usual < unseen {
		b.count -= (b.count - min(b.count, firstSlots)) * serviceGain
	}
	b.count = min(max(b.count, 1), mostSlots)
	b.doubt = max(leastDoubt, b.doubt*(1-gain*more))
	s.word.CompareAndSwap(old, b.pack())
}
