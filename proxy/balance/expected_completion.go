package balance

// expectedCompletion picks the backend where this request costs least: its service time as long as there is a
// slot free, its queue's length after that (see capacity), which counts more than once. It is our own: where
// response time × in-flight charges a backend for requests that it works on side by side, this one charges
// only for those that have to wait.
type expectedCompletion struct{ chooser }

func newExpectedCompletion(backends []*Backend, o Options) Picker {
	return &expectedCompletion{newChooser(backends, o)}
}

func (p *expectedCompletion) Pick(uint64) *Backend { return p.least(completionCost) }

const (
	// waitPrice is what a second of waiting costs, in seconds of service. A request that waits makes those
	// behind it wait as well: at price 1, where each looks for its own earliest end, the fast backend's queue
	// grows until it is no faster than the slow ones, and all are worse off. What is best for all depends on
	// how long a queue lasts: 1 / (1 - load) for one server (Krishnan, 1990).
	waitPrice = 2.5
	// evenness is how much longer, at most, a request may be expected to take on an idle backend than on a
	// crowded one and still go to the idle one: half of that with firstSlots in flight. Service times are only
	// known to some 5%; without it, the backend that seems the fastest among equals would get everything
	// until it is full.
	evenness = 1
)

func completionCost(b *Backend, now int64) (cost, share float64) {
	waiting := float64(b.inFlight.Load())
	s, age := b.capacity.service.read(now)
	if s == 0 {
		return b.untriedCost(waiting, now), 1
	}
	felt := b.felt(waiting)
	queue := max(0, b.capacity.use(felt+1)-1)
	t := b.corrected(s*(1+waitPrice*queue), age, waiting, now)
	return t * (1 + evenness*felt/(felt+firstSlots)), b.Warmth()
}
