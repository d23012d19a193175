package loadtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const (
	maxLogs    = 20   // distinct lines that are kept
	maxLogLine = 2000 // bytes of each
)

// logs keeps what a driver said on its standard error: each thing once, with how often (k6 warns once per failed
// request).
type logs struct {
	order []string
	times map[string]int
	other int
}

var logStamp = regexp.MustCompile(`^time="[^"]*" `)

// read reads until the stream ends.
func (l *logs) read(from io.Reader) {
	l.times = map[string]int{}
	b := bufio.NewReaderSize(from, maxLogLine)
	for cut := false; ; {
		line, tooLong, err := b.ReadLine()
		if !cut && len(line) > 0 {
			l.add(plainLog(line))
		}
		if err != nil {
			return
		}
		cut = tooLong
	}
}

// add counts a line.
func (l *logs) add(line string) {
	switch _, known := l.times[line]; {
	case known:
		l.times[line]++
	case len(l.order) < maxLogs:
		l.order = append(l.order, line)
		l.times[line] = 1
	default:
		l.other++
	}
}

// lines are the distinct lines in the order in which they came first.
func (l *logs) lines() (all []string) {
	for _, line := range l.order {
		if n := l.times[line]; n > 1 {
			line = fmt.Sprintf("%s (%d times)", line, n)
		}
		all = append(all, line)
	}
	if l.other > 0 {
		all = append(all, fmt.Sprintf("… and %d lines more", l.other))
	}
	return all
}

// plainLog is a log line without its time: level, message and error of a JSON line, the rest of any other.
func plainLog(line []byte) string {
	var entry struct{ Level, Msg, Error string }
	if json.Unmarshal(line, &entry) == nil && entry.Msg != "" {
		text := entry.Level + ": " + entry.Msg
		if entry.Error != "" {
			text += ": " + entry.Error
		}
		return text
	}
	return strings.TrimSpace(logStamp.ReplaceAllString(string(line), ""))
}
