package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

const (
	readSize = 64 << 10
	// fairRounds is how often a connection is read from before the others have their turn.
	fairRounds = 16
	// yieldAfter is how many batches of events a busy loop handles before it lets other goroutines run: without, two
	// loops starve each other and the control loop.
	yieldAfter = 16
	// spareBuffers and spareCalls are how many of each a loop keeps for later.
	spareBuffers, spareCalls = 64, 1024
	largestSpare             = 32 << 10
)

// loop serves its share of the clients' connections, on one goroutine: everything below belongs to that, but for the
// inbox. It waits inside of the runtime's poller, which watches the loop's own epoll descriptor: so no thread blocks
// in it, and garbage collection and other goroutines are scheduled as always.
type loop struct {
	*lane
	lists
	ep     int      // the epoll descriptor
	epoll  *os.File // the same, as the runtime's poller knows it
	wakeFD int      // an eventfd: there is something in the inbox

	now      int64 // balance.Now when this batch of events came
	wakeAt   int64 // when the wait ends at the latest
	batches  int
	stopping bool

	socks  []*sock // by descriptor
	idles  map[*server]*idles
	timers []*timers
	again  []*sock // have had their share of rounds
	dead   []*sock // to be closed at the end of the batch

	events [512]unix.EpollEvent
	buf    []byte   // what is being read
	out    []byte   // what is being written
	spares [][]byte // buffers
	works  []*work

	clients atomic.Int64 // connections
	mu      sync.Mutex
	inbox   []note // guarded by mu
	ended   bool   // guarded by mu
}

// note is what other goroutines have for a loop.
type note struct {
	fd     int        // accepted, or dialed by name; -1: neither
	addr   netip.Addr // of the client
	dialed *sock
	lost   *server
	drain  bool
	stop   bool
}

func newLoop(l *lane) (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll instance: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err == nil {
		err = errors.Join(register(ep, wake), unix.SetNonblock(ep, true))
	}
	if err != nil {
		_, _ = unix.Close(ep), unix.Close(wake)
		return nil, fmt.Errorf("making an event loop: %w", err)
	}
	o := &loop{
		lane: l, ep: ep, epoll: os.NewFile(uintptr(ep), "epoll"), wakeFD: wake, now: balance.Now(),
		idles: map[*server]*idles{}, buf: make([]byte, readSize),
	}
	o.initTimers()
	l.choose.pool.onLoss(func(s *server) { o.tell(note{fd: -1, lost: s}) })
	return o, nil
}

// tell puts a note into the inbox and wakes the loop; after its end it closes what the note brings.
func (l *loop) tell(m note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		m.discard()
		return
	}
	l.inbox = append(l.inbox, m)
	_, _ = unix.Write(l.wakeFD, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it can only be full, and then the loop wakes as well
}

// run serves until it is told to stop.
func (l *loop) run() error {
	defer l.shut()
	raw, err := l.epoll.SyscallConn()
	if err != nil {
		return fmt.Errorf("waiting for events: %w", err)
	}
	for !l.stopping {
		if err := l.setDeadline(); err != nil {
			return fmt.Errorf("waiting for events: %w", err)
		}
		err := raw.Read(l.turn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.now = balance.Now()
			l.tidy()
		} else if err != nil {
			return fmt.Errorf("waiting for events: %w", err)
		}
	}
	return nil
}

// setDeadline makes the wait end when the next timer is due.
func (l *loop) setDeadline() error {
	if l.wakeAt = l.nextDue(); l.wakeAt == never {
		return l.epoll.SetReadDeadline(time.Time{})
	}
	return l.epoll.SetReadDeadline(time.Now().Add(time.Duration(l.wakeAt - l.now)))
}

// turn handles batches of events as long as there are any. It returns true when the loop has to wait anew: to stop, or
// for an earlier timer. In between it returns false, and is called again after the next event.
func (l *loop) turn(ep uintptr) bool {
	for {
		n := epollWait(ep, l.events[:])
		l.now = balance.Now()
		for i := range l.events[:n] {
			l.handle(&l.events[i])
		}
		l.tidy()
		if l.stopping || l.nextDue() < l.wakeAt {
			return true
		}
		if l.batches++; l.batches%yieldAfter == 0 {
			runtime.Gosched()
		}
		if n < len(l.events) && len(l.again) == 0 {
			return false // what came since then has set the poller's mark
		}
	}
}

func (l *loop) handle(e *unix.EpollEvent) {
	if int(e.Fd) == l.wakeFD {
		l.readInbox()
		return
	}
	switch s := l.socks[e.Fd]; {
	case s == nil || s.dead:
	case s.upstream:
		l.upstreamEvent(s, e.Events)
	default:
		l.clientEvent(s, e.Events)
	}
}

// tidy does what is left to do after a batch.
func (l *loop) tidy() {
	if len(l.again) > 0 {
		round := l.again
		l.again = nil
		for _, s := range round {
			s.queued = false
			l.resume(s)
		}
	}
	l.expire()
	for _, s := range l.dead {
		l.release(s)
	}
	l.dead = l.dead[:0]
}

// resume goes on with a connection that gave way to the others.
func (l *loop) resume(s *sock) {
	switch {
	case s.dead:
	case !s.upstream:
		l.pump(s)
	case s.work != nil:
		l.pull(s.work)
	}
}

// later gives way to the other connections.
func (l *loop) later(s *sock) {
	if !s.queued {
		s.queued = true
		l.again = append(l.again, s)
	}
}

func (l *loop) readInbox() {
	var count [8]byte
	_, _ = unix.Read(l.wakeFD, count[:])
	l.mu.Lock()
	inbox := l.inbox
	l.inbox = nil
	l.mu.Unlock()
	for _, m := range inbox {
		switch {
		case m.stop:
			l.stopping = true
		case m.drain:
			l.drainIdle()
		case m.dialed != nil:
			l.dialedByName(m.dialed, m.fd)
		case m.lost != nil:
			l.lost(m.lost)
		default:
			l.accepted(m.fd, m.addr)
		}
	}
}

// add registers a new connection; false when that failed, and fd is closed.
func (l *loop) add(s *sock) bool {
	if err := register(l.ep, s.fd); err != nil {
		l.log.Warn("a connection can't be watched", "error", err)
		_ = unix.Close(s.fd)
		return false
	}
	for s.fd >= len(l.socks) {
		l.socks = append(l.socks, make([]*sock, max(256, len(l.socks)))...)
	}
	l.socks[s.fd] = s
	return true
}

// kill takes a connection out of service. Its descriptor closes at the end of the batch, so that no event of this
// batch can be taken for another connection's.
func (l *loop) kill(s *sock) {
	if s.dead {
		return
	}
	s.dead = true
	s.disarm()
	if s.upstream {
		l.forgetIdle(s)
	}
	l.dead = append(l.dead, s)
}

func (l *loop) release(s *sock) {
	if s.fd >= 0 {
		l.socks[s.fd] = nil
		_ = unix.Close(s.fd)
	}
	l.giveBack(&s.unread)
	l.giveBack(&s.pending)
	s.work = nil
	if !s.upstream {
		l.clients.Add(-1)
	}
}

// keep appends b to a socket's buffer, which comes from the spares when it is empty.
func (l *loop) keep(buf *[]byte, b []byte) {
	if n := len(l.spares); *buf == nil && n > 0 {
		*buf, l.spares = l.spares[n-1][:0], l.spares[:n-1]
	}
	*buf = append(*buf, b...)
}

func (l *loop) giveBack(buf *[]byte) {
	if c := cap(*buf); c > 0 && c <= largestSpare && len(l.spares) < spareBuffers {
		l.spares = append(l.spares, *buf)
	}
	*buf = nil
}

// send writes b, and keeps what the socket does not take; ok is false when the connection is broken. n is what it took.
func (l *loop) send(s *sock, b []byte) (n int, ok bool) {
	if !s.waiting() {
		if n, ok = s.write(b); !ok || n == len(b) {
			return n, ok
		}
	}
	l.keep(&s.pending, b[n:])
	return n, true
}

// flush writes what is pending; false when the connection is broken.
func (l *loop) flush(s *sock) bool {
	n, ok := s.write(s.pending[s.written:])
	if s.written += n; s.written == len(s.pending) {
		s.written = 0
		l.giveBack(&s.pending)
	}
	return ok
}

// shut closes everything when the loop ends; what is under way counts as given up.
func (l *loop) shut() {
	for _, s := range l.socks {
		if s == nil {
			continue
		}
		if s.work != nil {
			s.work.end(balance.Now(), traffic.Aborted)
		}
		if s.fd >= 0 {
			_ = unix.Close(s.fd)
		}
	}
	l.clients.Store(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.inbox {
		m.discard()
	}
	l.ended = true
	_ = l.epoll.Close()
	_ = unix.Close(l.wakeFD)
}

// discard closes the descriptor of a note that nobody reads any more.
func (m *note) discard() {
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
}
