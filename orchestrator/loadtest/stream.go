package loadtest

import (
	"bufio"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// stream reads a driver's standard output: JSON lines, from k6 or from the built-in driver alike.
type stream struct {
	measured *measurement
	started  time.Time
	lines    atomic.Int64
	garbage  atomic.Int64 // lines that are none of such a stream: too long, cut off, or something else
	heard    atomic.Int64 // when a byte last came, nanoseconds after started
}

// maxLine is the longest line that is read; k6's are below 1 KB.
const maxLine = 64 << 10

// read reads until the stream ends. Memory stays bounded whatever comes.
func (s *stream) read(from io.Reader) {
	b := bufio.NewReaderSize(from, maxLine)
	for overlong := false; ; {
		line, err := b.ReadSlice('\n')
		s.heard.Store(int64(time.Since(s.started)))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			overlong = true
			continue
		case overlong:
			s.count(false)
		case len(line) > 0:
			s.count(err == nil && s.line(line))
		}
		if err != nil {
			return
		}
		overlong = false
	}
}

func (s *stream) count(ok bool) {
	s.lines.Add(1)
	if !ok {
		s.garbage.Add(1)
	}
}

// line measures one line; false if it is garbage.
func (s *stream) line(line []byte) bool {
	p, read, ok := parse(line)
	if !read || !ok {
		return ok
	}
	if p.metric == metricEvent {
		return s.measured.event(p)
	}
	scenario := p.tag(`"scenario":"`)
	if string(p.tag(`"name":"`)) == "admin" {
		return true
	}
	main := string(scenario) == "main"
	switch {
	case p.metric == metricDuration:
		s.measured.add(p.sample(), main)
	case main:
		s.measured.drop(p.at, int64(p.value))
	}
	return true
}
