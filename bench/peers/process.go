//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unpinned is the core of what may run on any.
const unpinned = -1

// patience is how long a child may take to end by itself once it is told to.
const patience = 2 * time.Second

// child is a process that we started, in a process group of its own. The kernel tells it to end when we are killed.
type child struct {
	name   string
	cmd    *exec.Cmd
	out    bytes.Buffer // all that it printed; read it only after ended is closed
	ended  chan struct{}
	result error // of the process; set when ended is closed
}

// start runs a program on one core, or on any if it is unpinned. It must be called on the locked main thread: children
// are told to end when the thread that started them does.
func start(name string, core int, env []string, argv ...string) (*child, error) {
	argv = pinned(core, argv)
	c := &child{name: name, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		c.result = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// pinned is a command line that runs on one core.
func pinned(core int, argv []string) []string {
	if core == unpinned {
		return argv
	}
	return append([]string{"taskset", "-c", strconv.Itoa(core)}, argv...)
}

// stop ends the child and all that it started.
func (c *child) stop() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(patience):
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.ended
}

// alive is an error with what the child printed once it has ended.
func (c *child) alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s has ended (%w): %s", c.name, errors.Join(c.result), lastLines(c.out.String()))
	default:
		return nil
	}
}

// lastLines is the end of a program's output, in one line.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}

// family is a process and its children; they come and go only when a server starts and stops.
func family(pid int) []int {
	all := []int{pid}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for f := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(f); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// cpuTime is the CPU time that a process and its children have used, from the kernel's own clock of each process,
// which counts nanoseconds where /proc/PID/stat counts hundredths of a second.
func cpuTime(pid int) (total time.Duration, err error) {
	const schedulerClock = 2 // CPUCLOCK_SCHED: user and system time together
	for _, p := range family(pid) {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^p<<3|schedulerClock), &t); err != nil {
			return 0, fmt.Errorf("reading the CPU time of process %d: %w", p, err)
		}
		total += time.Duration(t.Nano())
	}
	return total, nil
}

// pss is the memory of a process and its children in bytes: pages that several share count in shares.
func pss(pid int) (total int64, err error) {
	for _, p := range family(pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p))
		if err != nil {
			return 0, err
		}
		kib, err := fieldKiB(string(text), "Pss:")
		if err != nil {
			return 0, fmt.Errorf("memory of process %d: %w", p, err)
		}
		total += kib << 10
	}
	return total, nil
}

// fieldKiB is the number in a line such as "Pss:  1234 kB".
func fieldKiB(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %s", name)
}

// output runs a program to its end and returns what it printed to stdout, and the CPU time it took.
func output(ctx context.Context, core int, env []string, argv ...string) ([]byte, time.Duration, error) {
	argv = pinned(core, argv)
	var out, diagnosis bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &out, &diagnosis
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return nil, 0, errors.Join(ctx.Err(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, lastLines(out.String()+diagnosis.String())))
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
