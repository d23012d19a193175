package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// How long a child gets.
const (
	graceTime = 12 * time.Second // from the interrupt to the kill: k6's teardown may take 10 s
	drainTime = 3 * time.Second  // from its end to the end of its pipes, which a grandchild may hold open
	watchTime = 250 * time.Millisecond
)

// command is a program to be run as a child.
type command struct {
	path    string
	args    []string
	env     []string // all of it: nothing is inherited
	dir     string
	stdin   []byte
	onDeath syscall.Signal // what it gets when we die (Linux)
}

// ended is how a child came to its end.
type ended struct {
	code    int    // its exit code; -1 if a signal ended it
	signal  string // the signal's name
	cpu     time.Duration
	wall    time.Duration
	stopped string // why watch stopped it
}

// child is a running command.
type child struct {
	cmd     *exec.Cmd
	exited  chan struct{} // closed when it has been waited for
	drained chan struct{} // closed when both pipes have ended
	pipes   []*os.File    // our ends
	started time.Time
}

// run runs the command to its end, handing its output to the two readers. It is interrupted, and killed if it
// doesn't obey within grace, when ctx ends or when watch, called four times a second, gives a reason. Nothing of the
// child's process group outlives run.
func (c command) run(ctx context.Context, stdout, stderr func(io.Reader), watch func() string, grace time.Duration) (ended, error) {
	ch, err := c.start(stdout, stderr)
	if err != nil {
		return ended{}, err
	}
	why := ch.supervise(ctx, watch, grace)
	wall := time.Since(ch.started)
	ch.drain()
	state := ch.cmd.ProcessState
	e := ended{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime(), wall: wall, stopped: why}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal().String()
	}
	return e, nil
}

// start starts the command and its readers.
func (c command) start(stdout, stderr func(io.Reader)) (*child, error) {
	cmd := exec.Command(c.path, c.args...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = c.env, c.dir, childAttr(c.onDeath)
	cmd.Stdin = bytes.NewReader(c.stdin)
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.path, err)
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.path, errors.Join(err, outRead.Close(), outWrite.Close()))
	}
	cmd.Stdout, cmd.Stderr = outWrite, errWrite
	ch := &child{cmd: cmd, exited: make(chan struct{}), drained: make(chan struct{}), pipes: []*os.File{outRead, errRead}}
	err = ch.launch()
	outWrite.Close()
	errWrite.Close()
	if err != nil {
		ch.closePipes()
		return nil, fmt.Errorf("starting %s: %w", c.path, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { stdout(outRead) })
	reading.Go(func() { stderr(errRead) })
	go func() { reading.Wait(); close(ch.drained) }()
	return ch, nil
}

// launch starts the child on a thread that stays until the child has ended: the parent-death signal is sent when the
// starting thread ends, not the process.
func (ch *child) launch() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := ch.cmd.Start()
		ch.started = time.Now()
		started <- err
		if err == nil {
			_ = ch.cmd.Wait() // how it ended is in ProcessState
			close(ch.exited)
		}
	}()
	return <-started
}

// supervise returns when the child has ended, with the reason for which watch had it stopped, if it had.
func (ch *child) supervise(ctx context.Context, watch func() string, grace time.Duration) (why string) {
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	cancelled := ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case <-ch.exited:
			return why
		case <-cancelled:
			cancelled = nil
			kill = ch.interrupt(kill, grace)
		case <-kill:
			ch.killGroup()
		case <-tick.C:
			if reason := watch(); reason != "" && why == "" {
				why = reason
				kill = ch.interrupt(kill, grace)
			}
		}
	}
}

// interrupt sends SIGINT once and says when to kill. A second one would cut k6's teardown short.
func (ch *child) interrupt(kill <-chan time.Time, grace time.Duration) <-chan time.Time {
	if kill != nil {
		return kill
	}
	_ = ch.cmd.Process.Signal(os.Interrupt) // it may have ended by now
	return time.After(grace)
}

// killGroup ends the child and whatever it has started.
func (ch *child) killGroup() { _ = syscall.Kill(-ch.cmd.Process.Pid, syscall.SIGKILL) }

// drain waits for the pipes to be read to their end, and ends whatever of the group holds them open.
func (ch *child) drain() {
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case <-ch.drained:
		ch.killGroup()
	case <-late.C:
		ch.killGroup()
		ch.closePipes()
		<-ch.drained
	}
	ch.closePipes()
}

// closePipes ends readers that still wait: for a writer that is none of the group any more.
func (ch *child) closePipes() {
	for _, p := range ch.pipes {
		p.Close()
	}
}
