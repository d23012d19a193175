//go:build !unix || portable

package proxy

import (
	"errors"
	"os"
	"time"
)

// system has what a stream needs where nothing but net is there.
type system struct {
	first [1]byte
	woken chan error // why the watch over an idle connection has ended
}

// rest begins the watch over an idle connection, on a goroutine of its own, which ends with rouse or the connection.
func (s *stream) rest() {
	if s.woken == nil {
		s.woken = make(chan error, 1)
	}
	go func() {
		_, err := s.Read(s.first[:])
		s.woken <- err
	}()
}

// rouse ends the watch; false when the other end has closed the connection, or spoken without being asked.
func (s *stream) rouse() bool {
	s.wake()
	return s.late(<-s.woken)
}

// usedUp reports whether the other end of an idle connection has.
func (s *stream) usedUp() bool { return len(s.woken) > 0 }

// fill reads more, at least a byte. The stream is not full.
func (s *stream) fill() error {
	n, err := s.Read(s.space())
	s.w += n
	s.settle()
	if n > 0 {
		return nil // an error that came with bytes comes again
	}
	return err
}

// wait is fill for a stream that may be quiet for long: it waits without an inbox, and reads a byte.
func (s *stream) wait() error {
	if s.in != nil {
		return s.fill()
	}
	n, err := s.Read(s.first[:])
	if n == 0 {
		return err
	}
	s.w += copy(s.space(), s.first[:])
	return nil
}

// glance reads what has come. It waits for a moment, since only who waits is told.
func (s *stream) glance() {
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	s.due = 0
	_ = s.wait()
}

// ask sends out and reads what comes back first. When the system has not taken all of it soon, nothing was read.
func (s *stream) ask(out []byte, _ bool) (sent int, err error) {
	_ = s.SetWriteDeadline(time.Now().Add(watchAfter))
	sent, err = s.Write(out)
	_ = s.SetWriteDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return sent, nil
	}
	return sent, s.fill() // what it said before it closed is still there
}
