package sim

import "container/heap"

// calendar is the virtual clock: what is to happen, in order of time, and of entry at the same time.
type calendar struct {
	now     int64 // nanoseconds
	entries entries
	count   uint64
}

type entry struct {
	at    int64
	order uint64
	do    func()
}

func (c *calendar) at(t int64, do func()) {
	c.count++
	heap.Push(&c.entries, entry{t, c.count, do})
}

// run lets happen what is due before end.
func (c *calendar) run(end int64) {
	for len(c.entries) > 0 && c.entries[0].at < end {
		e := heap.Pop(&c.entries).(entry)
		c.now = e.at
		e.do()
	}
}

// entries is a heap by time.
type entries []entry

func (h entries) Len() int      { return len(h) }
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h entries) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h *entries) Push(x any) { *h = append(*h, x.(entry)) }
func (h *entries) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
