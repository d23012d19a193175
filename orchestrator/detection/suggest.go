package detection

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

// Observed is a run: the load that was made, and what the proxy saw of it.
type Observed struct {
	Shape     loadtest.Shape
	Started   time.Time // of the measured load
	Snapshots []traffic.Snapshot
}

// Suggestion is a threshold that would have told a state from the others better, by the cases that were seen.
type Suggestion struct {
	Path   string        `json:"path"`   // in the rule file, e.g. "detection.spike_rate"
	State  traffic.State `json:"state"`  // that it decides about
	Now    string        `json:"now"`    // as the rule file has it
	Better string        `json:"better"` // likewise
	// Cases truly were in the state, Others were not. Nearest is the case hardest to tell, Against the other hardest to
	// tell, each in the threshold's unit: milliseconds, requests per second, a rate or a share.
	Cases     int     `json:"cases"`
	Others    int     `json:"others"`
	Nearest   float64 `json:"nearest"`
	Against   float64 `json:"against"`
	WrongNow  int     `json:"wrong_now"` // of all cases and others, by the present threshold alone
	WrongThen int     `json:"wrong_then"`
	Why       string  `json:"why"` // one sentence with these figures
}

// fewest is how many cases on either side of a threshold say anything about it.
const fewest = 2

// Suggest looks at each detection threshold by itself, the others as they stand, and answers with those of which
// another value names fewer cases wrongly: the cut with the fewest wrong, in the middle of the widest gap that there
// is. Where the present value is as good, nothing is suggested; nor on fewer than two cases on either side.
//
// What counts as a case is said at each threshold below.
func Suggest(d traffic.Detection, runs []Observed) []Suggestion {
	var timelines []timeline
	for _, r := range runs {
		if t, known := newTimeline(r); known {
			timelines = append(timelines, t)
		}
	}
	var out []Suggestion
	for _, t := range thresholds {
		var all []sample
		for _, run := range timelines {
			all = append(all, t.samples(d, run)...)
		}
		if s, better := t.suggest(d, all); better {
			out = append(out, s)
		}
	}
	return out
}

// sample is one measured value, and whether its state was the threshold's.
type sample struct {
	value float64
	is    bool
}

// threshold is what Suggest needs to know of one.
type threshold struct {
	path    string
	state   traffic.State
	what    string // is compared with it
	below   bool   // the state holds below it; else from it upwards
	now     func(traffic.Detection) float64
	samples func(traffic.Detection, timeline) []sample
	text    func(float64) string // of a measured value
	value   func(float64) string // as the rule file has it
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func digits(format string) func(float64) string {
	return func(v float64) string { return fmt.Sprintf(format, v) }
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func inMS(v float64) string {
	return (time.Duration(math.Round(v*1000)) * time.Microsecond).String()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

var thresholds = []threshold{
	{"detection.low_traffic_rps", traffic.LowTraffic, "rps", true,
		func(d traffic.Detection) float64 { return d.LowTrafficRPS }, lowSamples, digits("%.1f rps"), plain},
	{"detection.spike_rate", traffic.Spike, "rps change rate", false,
		func(d traffic.Detection) float64 { return d.SpikeRate }, spikeSamples, digits("%.2f"), plain},
	{"detection.gradual_increase_rate", traffic.GradualIncrease, "rps change rate", false,
		func(d traffic.Detection) float64 { return d.GradualIncreaseRate }, gradualSamples, digits("%.2f"), plain},
	{"detection.overload_error_rate", traffic.OverloadedNode, "a backend's error rate", false,
		func(d traffic.Detection) float64 { return d.OverloadErrorRate }, errorSamples, percent, plain},
	{"detection.overload_latency", traffic.OverloadedNode, "a backend's avg latency", false,
		func(d traffic.Detection) float64 { return ms(d.OverloadLatency) }, latencySamples, digits("%.0f ms"), inMS},
	{"detection.overload_latency_factor", traffic.OverloadedNode, "a backend's avg latency over its usual", false,
		func(d traffic.Detection) float64 { return d.OverloadLatencyFactor }, factorSamples, digits("%.2f×"), plain},
}

// suggest finds the best cut through the samples; false: the present one is as good.
func (t threshold) suggest(d traffic.Detection, all []sample) (s Suggestion, better bool) {
	now := t.now(d)
	s = Suggestion{Path: t.path, State: t.state, Now: t.value(now), WrongNow: t.wrong(all, now)}
	s.Nearest, s.Against = math.Inf(1), math.Inf(-1)
	if t.below {
		s.Nearest, s.Against = s.Against, s.Nearest
	}
	for _, x := range all {
		if x.is {
			s.Cases, s.Nearest = s.Cases+1, t.nearer(s.Nearest, x.value)
		} else {
			s.Others, s.Against = s.Others+1, -t.nearer(-s.Against, -x.value)
		}
	}
	if s.Cases < fewest || s.Others < fewest {
		return s, false
	}
	cut := t.cut(all, now)
	s.Better, s.WrongThen = t.value(cut), t.wrong(all, cut)
	s.Why = t.why(s, now, cut)
	return s, s.WrongThen < s.WrongNow
}

// nearer is the one of two cases that is nearer to the threshold.
func (t threshold) nearer(a, b float64) float64 {
	if t.below {
		return max(a, b)
	}
	return min(a, b)
}

// wrong counts the samples that a threshold puts on the wrong side.
func (t threshold) wrong(all []sample, at float64) (n int) {
	for _, x := range all {
		if named := x.value >= at != t.below; named != x.is {
			n++
		}
	}
	return n
}

// cut is the threshold with the fewest samples on the wrong side, in the middle of the widest such gap; now where all have
// one value.
func (t threshold) cut(all []sample, now float64) float64 {
	var values []float64
	for _, x := range all {
		values = append(values, x.value)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	best, least, widest := now, math.MaxInt, 0.0
	for i := range len(values) - 1 {
		low, high := values[i], values[i+1]
		c := between(low, high)
		if n := t.wrong(all, c); n < least || n == least && high-low > widest {
			best, least, widest = c, n, high-low
		}
	}
	return best
}

// between is the middle of two values, with no more digits than it takes to lie between them.
func between(low, high float64) float64 {
	middle := low + (high-low)/2
	for n := 1; n < 17; n++ {
		short, _ := strconv.ParseFloat(strconv.FormatFloat(middle, 'g', n, 64), 64) // what was just formatted parses
		quarter := (high - low) / 4
		if short >= low+quarter && short <= high-quarter {
			return short
		}
	}
	return middle
}

func (t threshold) why(s Suggestion, now, cut float64) string {
	least, most := "at least", "at most"
	if t.below {
		least, most = most, least
	}
	n := s.Cases + s.Others
	return fmt.Sprintf("%s %s %s in %d cases that truly were %s, %s %s in %d others: %s names %d of %d right, %s names %d",
		t.what, least, t.text(s.Nearest), s.Cases, s.State, most, t.text(s.Against), s.Others,
		t.value(cut), n-s.WrongThen, n, t.value(now), n-s.WrongNow)
}
