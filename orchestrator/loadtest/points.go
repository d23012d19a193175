package loadtest

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// flushTime is how often points are written, as k6 does it.
const flushTime = 200 * time.Millisecond

// readTime is how long the reader may sleep. One that sleeps longer is stopped, and another orchestrator may be about to
// load the target.
const readTime = 8 * time.Second

// points writes the stream's lines in k6's form, from a goroutine of its own: a reader that sleeps does not hold the
// load up. What it has not read yet stays in memory.
type points struct {
	w      io.Writer
	failed func(error) // called when w can't be written
	mu     sync.Mutex
	buffer []byte // guarded by mu
	stop   chan struct{}
	ended  chan error
	stuck  chan struct{} // closed when the reader sleeps too long
}

func newPoints(w io.Writer, failed func(error)) *points {
	p := &points{w: w, failed: failed, stop: make(chan struct{}), ended: make(chan error, 1), stuck: make(chan struct{})}
	go func() { p.ended <- p.flushing() }()
	return p
}

// close writes what is left and ends the goroutine, unless nobody reads it.
func (p *points) close() error {
	close(p.stop)
	select {
	case err := <-p.ended:
		return err
	case <-p.stuck:
		return errNobodyReads
	}
}

var errNobodyReads = errors.New("nobody reads the stream")

// flushing swaps two buffers: one fills while the other is written.
func (p *points) flushing() error {
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	giveUp := sync.OnceFunc(func() {
		p.failed(errNobodyReads)
		close(p.stuck)
	})
	var spare []byte
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-p.stop:
			last = true
		}
		p.mu.Lock()
		full := p.buffer
		p.buffer = spare[:0]
		p.mu.Unlock()
		late := time.AfterFunc(readTime, giveUp)
		_, err := p.w.Write(full)
		late.Stop()
		if err != nil && len(full) > 0 {
			p.failed(err)
			return err
		}
		spare = full
	}
	return nil
}

// request writes a request that was due at scheduled. A refused connection takes no time, as k6 has it.
func (p *points) request(phase string, scheduled, end time.Time, code int, said string) {
	took := end.Sub(scheduled) // by the monotonic clock; the wall clocks of two instants may differ a little
	tags := `"expected_response":"` + strconv.FormatBool(code > 0 && code < 400) + `"`
	if code == 0 {
		errorCode := errorCode(said)
		if errorCode != errorTimeout {
			took = 0
		}
		tags = `"error_code":"` + errorCode + `",` + tags
	}
	p.line(metricDuration, scheduled.Add(took), took.Seconds()*1000, tags+`,"name":"app","scenario":"`+phase+`","status":"`+strconv.Itoa(code)+`"`)
}

// dropped writes a request that could not be started when it was due.
func (p *points) dropped(at time.Time, phase string) {
	p.line(metricDropped, at, 1, `"scenario":"`+phase+`"`)
}

// begin marks the start of the measured load, which may be still to come.
func (p *points) begin(at time.Time) { p.line(metricEvent, at, 1, `"event":"`+eventBegin+`"`) }

// event writes a marker of something that happened to a backend, or failed to.
func (p *points) event(at time.Time, action, detail string, failed bool) {
	quoted, _ := json.Marshal(detail) // a string
	tags := `"detail":` + string(quoted) + `,"event":"` + action + `"`
	if failed {
		tags += `,"failed":"true"`
	}
	p.line(metricEvent, at, 1, tags)
}

// gauge writes a figure that the reader does not measure.
func (p *points) gauge(metric string, value int64) { p.line(metric, time.Now(), float64(value), "") }

// line appends a line in the order of k6's fields, which the reader relies on.
func (p *points) line(metric string, at time.Time, value float64, tags string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := append(p.buffer, `{"metric":"`...)
	b = append(b, metric...)
	b = append(b, `","type":"Point","data":{"time":"`...)
	b = at.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","value":`...)
	b = strconv.AppendFloat(b, value, 'f', 6, 64)
	b = append(b, `,"tags":{`...)
	b = append(b, tags...)
	p.buffer = append(b, "}}}\n"...)
}

// errorCode is k6's number for why there was no answer.
func errorCode(said string) string {
	switch {
	case strings.Contains(said, "Client.Timeout"), strings.Contains(said, "deadline exceeded"), strings.Contains(said, "i/o timeout"):
		return errorTimeout
	case strings.Contains(said, "connection refused"):
		return "1212"
	case strings.Contains(said, "connection reset"):
		return "1220"
	case strings.Contains(said, "no such host"):
		return "1101"
	}
	return "1000"
}
