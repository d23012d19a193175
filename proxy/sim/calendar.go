package sim

// calendar is the virtual clock: what is to happen, in order of time, and of entry at the same time.
type calendar struct {
	now     int64 // nanoseconds
	entries heap
	count   uint64
}

type entry struct {
	at    int64
	order uint64
	do    func()
}

func (e entry) before(f entry) bool { return e.at < f.at || e.at == f.at && e.order < f.order }

func (c *calendar) at(t int64, do func()) {
	c.count++
	c.entries.push(entry{t, c.count, do})
}

// run lets everything happen.
func (c *calendar) run() {
	for len(c.entries) > 0 {
		e := c.entries.pop()
		c.now = e.at
		e.do()
	}
}
