package balance

import "sync/atomic"

// roundRobin takes the backends in turn. It starts anywhere, so that pickers that are built often, or by many
// proxies at once, don't all begin with the same one.
type roundRobin struct {
	chooser
	next atomic.Uint64
}

func newRoundRobin(backends []*Backend, o Options) Picker {
	p := &roundRobin{chooser: newChooser(backends, o)}
	p.next.Store(p.dice.roll())
	return p
}

func (p *roundRobin) Pick(uint64) *Backend { return turn(p.backends, &p.next, p.dice) }

// turn is the next of list by counter. One that is warming up is passed over and takes its turn with it, so
// that the others share evenly what it leaves. The counter is unsigned: it may wrap, never go negative.
func turn(list []*Backend, counter *atomic.Uint64, d *dice) (b *Backend) {
	for range list {
		b = list[counter.Add(1)%uint64(len(list))]
		if admits(b, d) {
			break
		}
	}
	return b
}
