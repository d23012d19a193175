package loadtest

import (
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longest    = int64(10 * time.Minute / time.Microsecond) // the histograms' range ends here, in µs
	maxMarks   = 1000
	maxStatus  = 64   // distinct statuses and error codes; the rest count as "other"
	maxPending = 1000 // samples kept back until the measured load's start is known
	// beginWait is how long, in the stream's own time, the start is waited for: a script that does not mark it starts
	// with its first request.
	beginWait = 3 * time.Second
	// clockSlack is how far a request's end may lie before another's that came earlier in the stream: a busy machine mixes
	// them up a little, a clock that is set back by more than that.
	clockSlack = 2 * time.Second
)

// measurement adds up a run as its stream comes in. Only the measured load counts; live figures show the warm-up too.
type measurement struct {
	mu        sync.Mutex // guards all below
	begun     time.Time  // of the measured load; zero while unknown
	pending   []sample
	last      time.Time // latest start of a measured request
	total     *cell
	seconds   []*cell
	limit     int // seconds that a run may have; beyond it a point is garbage
	live      live
	marks     []event
	status    map[string]int64
	dropped   int64
	strays    int64     // points whose time lies outside the run
	latest    time.Time // latest end of a measured request
	backwards int64     // measured requests that ended more than clockSlack before latest
}

// event is a mark before the measured load's start need be known.
type event struct {
	at             time.Time
	action, detail string
	failed         bool
}

// cell is the figures of some requests.
type cell struct {
	requests, failed, dropped, timed int64
	sum, max                         float64                       // ms
	latency                          *hdrhistogram.PackedHistogram // µs; sparse: a second of a hundred requests takes 1 KB
}

func newCell() *cell { return &cell{latency: hdrhistogram.NewPacked(1, longest, 3)} }

// add counts a request, and its latency if it has one.
func (c *cell) add(s sample) {
	c.requests++
	if s.failed {
		c.failed++
	}
	if s.timed {
		c.timed++
		c.sum += s.ms
		c.max = max(c.max, s.ms)
		_ = c.latency.RecordValue(min(longest, max(1, int64(s.ms*1000+0.5)))) // within its range
	}
}

// avg is the mean latency in ms; 0 without samples.
func (c *cell) avg() float64 { return c.sum / float64(max(1, c.timed)) }

// quantile is a latency in ms; 0 without samples.
func (c *cell) quantile(percent float64) float64 {
	if c.timed == 0 {
		return 0
	}
	return min(c.max, float64(c.latency.ValueAtPercentile(percent))/1000)
}

// reset empties the cell and keeps its memory.
func (c *cell) reset() {
	c.latency.Reset()
	*c = cell{latency: c.latency}
}

// newMeasurement expects a load of that duration (0: unknown) whose requests time out after timeout.
func newMeasurement(duration, timeout time.Duration) *measurement {
	if duration == 0 {
		duration = maxDuration
	}
	return &measurement{total: newCell(), limit: int((duration + timeout).Seconds()) + 60, live: newLive(), status: map[string]int64{}}
}

// add counts a request.
func (m *measurement) add(s sample, main bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live.turn(s.end)
	m.live.now.add(s)
	if !main {
		return
	}
	if !m.begun.IsZero() {
		m.count(s)
		return
	}
	m.pending = append(m.pending, s)
	if len(m.pending) >= maxPending || s.end.Sub(m.pending[0].start) > beginWait {
		m.settleBegin()
	}
}

// settleBegin takes the first request's start for the measured load's.
func (m *measurement) settleBegin() {
	if len(m.pending) == 0 {
		return
	}
	first := m.pending[0].start
	for _, s := range m.pending {
		if s.start.Before(first) {
			first = s.start
		}
	}
	m.begin(first)
}

// begin sets the measured load's start, and counts what was kept back for it.
func (m *measurement) begin(at time.Time) {
	m.begun = at
	for _, s := range m.pending {
		m.count(s)
	}
	m.pending = nil
}

// count adds a request of the measured load to its second and to the whole.
func (m *measurement) count(s sample) {
	if s.end.Before(m.latest.Add(-clockSlack)) {
		m.backwards++
	}
	c := m.second(s.start)
	if c == nil {
		m.strays++
		return
	}
	if s.end.After(m.latest) {
		m.latest = s.end
	}
	if s.start.After(m.last) {
		m.last = s.start
	}
	m.total.add(s)
	c.add(s)
	if _, known := m.status[s.status]; !known && len(m.status) >= maxStatus {
		s.status = "other"
	}
	m.status[s.status]++
}

// second is the cell of an instant's second; nil outside the run.
func (m *measurement) second(at time.Time) *cell {
	since := at.Sub(m.begun)
	if since < -10*time.Second || since >= time.Duration(m.limit)*time.Second {
		return nil
	}
	i := max(0, int(since/time.Second))
	for i >= len(m.seconds) {
		m.seconds = append(m.seconds, newCell())
	}
	return m.seconds[i]
}

// drop counts requests that could not be started on time.
func (m *measurement) drop(at time.Time, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live.turn(at)
	m.live.now.dropped += n
	m.dropped += n
	if m.begun.IsZero() {
		return // before the first answer: counted, but in no second
	}
	if c := m.second(at); c != nil {
		c.dropped += n
	} else {
		m.strays++
	}
}

// event records a mark, or the start of the measured load.
func (m *measurement) event(p point) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := p.text(`"event":"`)
	if name != eventBegin {
		if len(m.marks) < maxMarks {
			m.marks = append(m.marks, event{p.at, name, p.text(`"detail":"`), string(p.tag(`"failed":"`)) == "true"})
		}
		return name != ""
	}
	if !m.begun.IsZero() {
		return true
	}
	at := p.at
	if ms, err := strconv.ParseInt(string(p.tag(`"at":"`)), 10, 64); err == nil {
		if told := time.UnixMilli(ms); told.Before(at) && at.Sub(told) < 10*time.Second {
			at = told
		}
	}
	m.begin(at)
	return true
}
