package main

import (
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// busyLog is how much of the machine's cores was in use, second by second.
type busyLog struct {
	mu      sync.Mutex
	samples []busySample // in the order of time
}

// busySample is what the cores had done since they started, in ticks.
type busySample struct {
	at        time.Time
	idle, all float64
}

// keep takes a sample a second until ctx ends. Where there is no /proc/stat there are none.
func (l *busyLog) keep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile("/proc/stat")
		if s, ok := parseStat(string(text)); ok {
			s.at = time.Now()
			l.mu.Lock()
			l.samples = append(l.samples, s)
			l.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// parseStat reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal.
func parseStat(stat string) (s busySample, ok bool) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return s, false
	}
	for i, text := range f[1:9] {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, false
		}
		s.all += n
		if i == 3 || i == 4 {
			s.idle += n
		}
	}
	return s, true
}

// share is how much of all cores was in use from an instant on; NaN when nobody looked.
func (l *busyLog) share(from time.Time, lasting time.Duration) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first, last busySample
	for _, s := range l.samples {
		if first.at.IsZero() || !s.at.After(from) {
			first = s
		}
		last = s
		if s.at.After(from.Add(lasting)) {
			break
		}
	}
	if !(last.all > first.all) {
		return math.NaN()
	}
	return 1 - (last.idle-first.idle)/(last.all-first.all)
}
