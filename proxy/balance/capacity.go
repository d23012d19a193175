package balance

const (
	// The weight of one sample in the two estimates: about the last 40 requests count.
	serviceGain = 0.05
	slotsGain   = 0.05
	serviceTau  = 1e9
	// firstSlots is believed before there is evidence. Too few makes a backend that was seldom needed look
	// full when another fails, too many lets its first queue grow to that length.
	firstSlots = 8
	// mostSlots bounds the concurrency that is believed in.
	mostSlots = 1 << 14
	// worstError bounds what one sample may say: service times have long tails.
	worstError = 3
)

// capacity is what EXPECTED_COMPLETION knows of a backend: its service time s while it has a slot free, and
// its number of slots c, how many requests it works on at once. A server whose queue is first come, first
// served answers the k-th request in flight after
//
//	T(k) = s · max(1, k/c)
//
// Each answer is compared with what was expected of it, and the difference is put down to s where few were
// in flight (k ≤ c/2), to c where slots may have been short. c grows by answers that came sooner than it
// allows, never far over twice the most seen in flight, as below half of it all is put down to s.
type capacity struct {
	service estimate // nanoseconds
	slots   estimate // slotsUnit times the number
}

// slotsUnit keeps slots well over the smallest estimate.
const slotsUnit = 1 << 10

// concurrency is c, at least 1.
func (c *capacity) concurrency() float64 { return max(1, c.slots.value()/slotsUnit) }

// expected is T(k), 0 if unknown.
func (c *capacity) expected(load float64) float64 {
	return c.service.value() * max(1, c.use(load))
}

// use is k/c: the part of the slots that are taken, over 1 if some wait.
func (c *capacity) use(load float64) float64 {
	return load * slotsUnit / max(slotsUnit, c.slots.value())
}

// age is the time since the newest lesson, in nanoseconds.
func (c *capacity) age(now int64) float64 { return min(c.service.age(now), c.slots.age(now)) }

// observe learns from one answer: load requests were in flight as it began, it took that many nanoseconds.
func (c *capacity) observe(now int64, load, took float64) {
	c.slots.word.CompareAndSwap(0, pack(firstSlots*slotsUnit, now))
	if !c.service.known() || load <= max(1, c.concurrency()/2) {
		c.service.move(now, took, serviceTau, serviceGain)
		return
	}
	off := took/c.expected(load) - 1
	c.slots.update(now, func(v, _ float64) float64 {
		v /= 1 + slotsGain*min(off, worstError)
		return min(max(v, slotsUnit), mostSlots*slotsUnit)
	})
}
