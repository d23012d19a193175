package balance

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// chooser is what the algorithms that compare costs or draw at random have in common: the set, the clock and
// the dice.
type chooser struct {
	backends []*Backend
	clock    *clock
	dice     *dice
	last     *atomic.Pointer[Backend] // the latest choice, where not all are compared
}

func newChooser(backends []*Backend, o Options) chooser {
	return chooser{backends, &clock{read: o.Now}, newDice(o.Seed), new(atomic.Pointer[Backend])}
}

// scanLimit is up to how many backends all are compared. Beyond it, two that are drawn at random and the latest
// choice: with that memory (Mitzenmacher, Prabhakar and Shah, 2002) a pick is nearly as good as if it had
// compared all of them, also where they differ. Two alone would send to the slow ones whenever both are slow:
// too often for the fast ones to be used.
const scanLimit = 8

// cost is what picking b now would cost, and the share in which it gets picks among equals, over 0.
type cost func(b *Backend, now int64) (cost, share float64)

// least is the backend with the least cost; among equals chance decides, so that no place in the list is
// favoured.
func (c *chooser) least(of cost) *Backend {
	r := c.dice.roll()
	now := c.clock.now(r)
	if len(c.backends) <= scanLimit {
		return leastOf(c.backends, of, now, r)
	}
	return c.leastOfSome(of, now, r)
}

func (c *chooser) leastOfSome(of cost, now int64, r uint64) *Backend {
	i, j := twoOf(len(c.backends), r)
	a, b, last := c.backends[i], c.backends[j], c.last.Load()
	some := [3]*Backend{a, b, last}
	n := 3
	if last == nil || last == a || last == b {
		n = 2
	}
	best := leastOf(some[:n], of, now, r)
	if best != last {
		c.last.Store(best)
	}
	return best
}

func leastOf(backends []*Backend, of cost, now int64, r uint64) (best *Backend) {
	var lowest, shares float64
	for _, b := range backends {
		v, share := of(b, now)
		switch {
		case best == nil || v < lowest:
			best, lowest, shares = b, v, share
		case v == lowest: // reservoir sampling: each equal is kept in proportion to its share
			shares += share
			r = mix(r + golden)
			if unit(r)*shares < share {
				best = b
			}
		}
	}
	return best
}

// clock is the time of a pick. The process clock costs more than a pick, so that one pick in 16 reads it:
// all that hangs on it changes over seconds.
type clock struct {
	read func() int64 // nil: the process clock
	last atomic.Int64
}

func (c *clock) now(r uint64) int64 {
	if last := c.last.Load(); last != 0 && r&15 != 0 {
		return last
	}
	if c.read != nil {
		return c.read()
	}
	now := Now()
	c.last.Store(now)
	return now
}

// dice rolls 64 random bits; the same ones again after the same seed.
type dice struct {
	seeded bool
	state  atomic.Uint64
}

func newDice(seed uint64) *dice {
	d := &dice{seeded: seed != 0}
	d.state.Store(seed)
	return d
}

// golden is splitmix64's step, 2^64 over the golden ratio.
const golden = 0x9e3779b97f4a7c15

func (d *dice) roll() uint64 {
	if !d.seeded {
		return rand.Uint64()
	}
	return mix(d.state.Add(golden))
}

// below maps r evenly to [0, n).
func below(n int, r uint64) int {
	hi, _ := bits.Mul64(r, uint64(n))
	return int(hi)
}

// twoOf draws two distinct numbers below n, each ordered pair with the same chance: the second from the n-1
// others.
func twoOf(n int, r uint64) (i, j int) {
	hi, lo := bits.Mul64(r, uint64(n))
	i, j = int(hi), below(n-1, mix(lo))
	if j >= i {
		j++
	}
	return i, j
}

// unit maps r evenly to [0, 1).
func unit(r uint64) float64 { return float64(r>>11) / (1 << 53) }

// admits reports whether b takes a request that is its by turn or by lot: always, unless it is warming up.
func admits(b *Backend, d *dice) bool {
	w := b.warmth.Load()
	return w == warm || unit(d.roll()) < math.Float64frombits(w)
}

// warm is the bits of a warmth of 1.
var warm = math.Float64bits(1)
