package balance

// expectedCompletion picks the backend that should have this request done first: its service time as long as
// it has a slot free, its queue's length after that (see capacity). It is our own: where response time ×
// in-flight charges a backend for requests that it works on side by side, this one charges only for those
// that have to wait.
type expectedCompletion struct{ chooser }

func newExpectedCompletion(backends []*Backend, o Options) Picker {
	return &expectedCompletion{newChooser(backends, o)}
}

func (p *expectedCompletion) Pick(uint64) *Backend { return p.least(completionCost) }

// evenness is how much longer, at most, a request may be expected to take on an idle backend than on a crowded
// one and still go to the idle one: half of that with firstSlots in flight. Service times are only known to
// some 5%; without it, the backend that seems the fastest among equals would get everything until it is full.
const evenness = 0.5

func completionCost(b *Backend, now int64) (cost, share float64) {
	waiting := float64(b.inFlight.Load())
	s := b.capacity.service.value()
	if s == 0 {
		return b.untriedCost(waiting, now), 1
	}
	felt := b.felt(waiting)
	t := b.corrected(s*max(1, b.capacity.use(felt+1)), b.capacity.age(now), waiting, now)
	return t * (1 + evenness*felt/(felt+firstSlots)), b.Warmth()
}
