package loadtest

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// The stream's metrics that are read; k6 writes 13 lines per request, of which one is measured.
const (
	metricDuration = "http_req_duration"  // one request: at its end, how many milliseconds it took
	metricDropped  = "dropped_iterations" // requests that could not be started on time
	metricEvent    = "rt_event"           // something happened on the timeline
)

// eventBegin marks the start of the measured load in the stream; its tag "at", where it
// has one, is the instant in Unix milliseconds, else its time is.
const eventBegin = "begin"

// point is one line of the stream that is read. Its byte slices are good until the next line.
type point struct {
	metric string
	at     time.Time
	value  float64
	tags   []byte
}

// parse reads a line of the stream by prefix: encoding/json on each line would cost as much CPU as k6 itself. read
// is false for a line that is none of ours; ok is false for one that is no line of such a stream.
func parse(line []byte) (p point, read, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"metric":"`))
	if !ok {
		return p, false, bytes.HasPrefix(line, []byte(`{"type":"Metric"`))
	}
	name, rest, ok := bytes.Cut(rest, []byte(`"`))
	switch {
	case !ok:
		return p, false, false
	case string(name) == metricDuration:
		p.metric = metricDuration
	case string(name) == metricDropped:
		p.metric = metricDropped
	case string(name) == metricEvent:
		p.metric = metricEvent
	default:
		return p, false, true
	}
	at, value := field(rest, `"time":"`), number(rest, `"value":`)
	_, p.tags, ok = bytes.Cut(rest, []byte(`"tags":`))
	if !ok || p.at.UnmarshalText(at) != nil {
		return p, false, false
	}
	var err error
	p.value, err = strconv.ParseFloat(string(value), 64)
	return p, true, err == nil && p.value >= 0 && p.value < 1e12
}

// tag is the value of a tag; nil when the line hasn't got it.
func (p point) tag(quotedKey string) []byte { return field(p.tags, quotedKey) }

// text is a tag's value with its JSON escapes undone.
func (p point) text(quotedKey string) string {
	raw := p.tag(quotedKey)
	var s string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) != nil {
		return string(raw)
	}
	return s
}

// field is what stands between opening (such as `"time":"`) and the next quote that is not escaped.
func field(b []byte, opening string) []byte {
	i := bytes.Index(b, []byte(opening))
	if i < 0 {
		return nil
	}
	b = b[i+len(opening):]
	for end := 0; end < len(b); end++ {
		switch b[end] {
		case '\\':
			end++
		case '"':
			return b[:end]
		}
	}
	return nil
}

// number is what stands between opening (such as `"value":`) and the next comma or brace.
func number(b []byte, opening string) []byte {
	i := bytes.Index(b, []byte(opening))
	if i < 0 {
		return nil
	}
	b = b[i+len(opening):]
	if end := bytes.IndexAny(b, ",}"); end >= 0 {
		return b[:end]
	}
	return nil
}

// sample is one measured request.
type sample struct {
	start, end time.Time // a request belongs to the instant at which it started
	ms         float64
	status     string // HTTP status, or the driver's error code when there was no answer
	failed     bool
	timed      bool // has a latency: an answer, or a time-out at its full length
}

// errorTimeout is the error code of a request that was given up (k6's numbers, as in the built-in driver).
const errorTimeout = "1050"

// sample reads a request's point. A request without an answer has no latency to speak of (a refused connection is
// reported with 0 ms, and would make a dead backend look fast), unless it is a time-out: that counts in full.
func (p point) sample() sample {
	s := sample{end: p.at, ms: p.value, timed: true}
	s.start = p.at.Add(-time.Duration(math.Round(p.value * float64(time.Millisecond))))
	status := p.tag(`"status":"`)
	code, err := strconv.Atoi(string(status))
	switch {
	case err != nil: // a script that switched the tag off
		s.failed = string(p.tag(`"expected_response":"`)) == "false"
	case code == 0:
		s.failed, s.status = true, string(p.tag(`"error_code":"`))
		s.timed = s.status == errorTimeout && p.value > 0
	default:
		s.failed, s.status = code >= 400, string(status)
	}
	return s
}
