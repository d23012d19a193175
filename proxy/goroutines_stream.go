package proxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// inbox is what a connection is read into: a head of the largest size. A connection holds one only while there is
// something in it, so that an idle one costs its goroutine and little else.
type inbox [maxHead]byte

var inboxes = sync.Pool{New: func() any { return new(inbox) }}

// stream is a connection with what has been read from it and not been used. One goroutine at a time reads.
type stream struct {
	*net.TCPConn
	raw     syscall.RawConn
	in      *inbox // nil: everything is used
	r, w    int    // in[r:w] is unread
	scanned int    // how much of that has no head's end in it
	due     int64  // the read deadline, as far as this goroutine knows, of balance.Now; 0: it has to be set
	system
}

func newStream(c *net.TCPConn) stream {
	raw, _ := c.SyscallConn() // fails for a nil connection alone
	return stream{TCPConn: c, raw: raw}
}

// unread is what has come and was not used.
func (s *stream) unread() []byte {
	if s.in == nil {
		return nil
	}
	return s.in[s.r:s.w]
}

// full reports whether there is no room for more.
func (s *stream) full() bool { return s.w-s.r == maxHead }

// use takes the first n bytes of what is unread.
func (s *stream) use(n int) {
	s.r += n
	s.scanned = 0
	s.settle()
}

// settle gives an inbox back that has nothing in it.
func (s *stream) settle() {
	if s.r == s.w {
		s.release()
	}
}

func (s *stream) release() {
	if s.in != nil {
		inboxes.Put(s.in)
		s.in = nil
	}
	s.r, s.w, s.scanned = 0, 0, 0
}

// space is where more is read into; there is some unless the stream is full.
func (s *stream) space() []byte {
	if s.in == nil {
		s.in = inboxes.Get().(*inbox)
	}
	if s.r > 0 && s.w == maxHead {
		s.w = copy(s.in[:], s.in[s.r:s.w])
		s.r = 0
	}
	return s.in[s.w:]
}

// bound makes the next read end between least and most from now.
func (s *stream) bound(now int64, least, most time.Duration) {
	if left := time.Duration(s.due - now); left < least || left > most {
		s.due = now + int64(most)
		_ = s.SetReadDeadline(time.Now().Add(most)) // a closed connection says so in the read
	}
}

// wake makes whoever reads, or will, look up: with an error for which late is true. Any goroutine may call it.
func (s *stream) wake() { _ = s.SetReadDeadline(time.Unix(1, 0)) }

// late reports whether a read ended at its deadline. Whoever reads sets another one then, or stops.
func (s *stream) late(err error) bool {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	s.due = 0
	return true
}
