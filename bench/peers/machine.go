//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// noisy is the share of a core that others may take during a run before its figures are doubtful.
const noisy = 0.10

// busy is how long the machine's cores have been busy since it started, for whomever; taken by its host included.
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return busyOf(string(text))
}

// busyOf reads the first line of /proc/stat: hundredths of a second as user, nice, system, idle, iowait, irq, softirq
// and steal.
func busyOf(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks int64
	for i, s := range f[1:9] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 { // idle, iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// awaitQuiet waits until the machine has nothing to do, at most so long.
func awaitQuiet(ctx context.Context, most time.Duration) error {
	const look = 400 * time.Millisecond
	for end := time.Now().Add(most); time.Now().Before(end); {
		before, err := busy()
		if err != nil {
			return err
		}
		if !sleep(ctx, look) {
			return ctx.Err()
		}
		after, err := busy()
		if err != nil || after-before < look*8/100 {
			return err
		}
	}
	return ctx.Err()
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// usage is what a run cost, in CPU time.
type usage struct {
	elapsed   time.Duration
	contender time.Duration
	backends  time.Duration
	machine   time.Duration // of everything
}

// clocks is an instant of all that a run's cost is read from.
type clocks struct {
	at                           time.Time
	contender, backends, machine time.Duration
}

// read reads the clocks; a contender of pid 0 is none.
func readClocks(contender, backends int) (c clocks, err error) {
	var errs [3]error
	if contender != 0 {
		c.contender, errs[0] = cpuTime(contender)
	}
	c.backends, errs[1] = cpuTime(backends)
	c.machine, errs[2] = busy()
	c.at = time.Now()
	return c, errors.Join(errs[:]...)
}

// since is what was used between two readings.
func (c clocks) since(before clocks) usage {
	return usage{c.at.Sub(before.at), c.contender - before.contender, c.backends - before.backends, c.machine - before.machine}
}

// foreign is the share of a core that went to anybody else, given what the load driver took.
func (u usage) foreign(driver time.Duration) float64 {
	return max(0, (u.machine-u.contender-u.backends-driver).Seconds()/u.elapsed.Seconds())
}
