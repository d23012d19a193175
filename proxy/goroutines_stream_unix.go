//go:build unix && !portable

package proxy

import (
	"errors"
	"io"
	"syscall"
)

// system is how a stream reads where the runtime's poller can be asked by hand: what comes is read into an inbox that is
// lent when it is there, and a request is sent between the poller's preparation and the wait for its answer, which
// saves an attempt to read before.
type system struct {
	read, asked func(fd uintptr) bool // the steps, made once

	out  []byte // of ask
	test bool   // that the other end has been quiet
	sent int
	err  error
}

// fill reads more, at least a byte. The stream is not full.
func (s *stream) fill() error {
	if s.read == nil {
		s.read = s.readStep
	}
	s.err = nil
	if err := s.raw.Read(s.read); err != nil {
		return err
	}
	return s.err
}

// wait is fill for a stream that may be quiet for long.
func (s *stream) wait() error { return s.fill() }

// glance reads what has come, whatever the deadline.
func (s *stream) glance() { _ = s.raw.Control(func(fd uintptr) { s.readStep(fd) }) }

func (s *stream) readStep(fd uintptr) bool {
	n, err := retryRead(fd, s.space())
	switch {
	case errors.Is(err, syscall.EAGAIN):
		s.settle()
		return false
	case err != nil:
		s.settle()
		s.err = err
	case n == 0:
		s.settle()
		s.err = io.EOF
	}
	s.w += n
	return true
}

// ask sends out and reads the first bytes of what comes back. sent is how much of out the system has taken; when that
// is not all, nothing was read. used: the connection has served before, and may have been closed by the other end:
// errUsedUp, and nothing was sent.
func (s *stream) ask(out []byte, used bool) (sent int, err error) {
	if s.asked == nil {
		s.asked = s.askStep
	}
	s.out, s.test, s.sent, s.err = out, used, 0, nil
	if err := s.raw.Read(s.asked); err != nil {
		return s.sent, err
	}
	return s.sent, s.err
}

func (s *stream) askStep(fd uintptr) bool {
	if s.out == nil {
		return s.readStep(fd)
	}
	out := s.out
	s.out = nil
	if s.test && !quiet(fd) {
		s.err = errUsedUp
		return true
	}
	n, err := syscall.Write(int(fd), out)
	s.sent = max(n, 0)
	switch {
	case err == nil && n == len(out):
		return false // it can't be answered yet
	case err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR):
		return s.readStep(fd) // what it said before it closed
	}
	return true
}

// rest and rouse have nothing to do: usedUp and ask look.
func (s *stream) rest() {}

func (s *stream) rouse() bool { return true }

// usedUp reports whether the other end has closed the connection, or spoken without being asked.
func (s *stream) usedUp() bool {
	quietly := false
	err := s.raw.Control(func(fd uintptr) { quietly = quiet(fd) })
	return err != nil || !quietly
}

func quiet(fd uintptr) bool {
	var b [1]byte
	_, err := retryRead(fd, b[:])
	return errors.Is(err, syscall.EAGAIN)
}

func retryRead(fd uintptr, b []byte) (n int, err error) {
	for {
		if n, err = syscall.Read(int(fd), b); !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}
