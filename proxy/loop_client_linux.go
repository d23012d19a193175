package proxy

import (
	"bytes"
	"net/http"
	"net/netip"

	"golang.org/x/sys/unix"

	"retune/proxy/balance"
	"retune/proxy/wire"
)

// work is a call with the two connections that it joins.
type work struct {
	call
	client   *sock
	upstream *sock // nil between attempts
	reused   bool  // the connection to the backend has served before
	heard    bool  // bytes of an answer have come on it
	sink     bool  // the backend takes no more of the body
}

func (l *loop) accepted(fd int, addr netip.Addr) {
	s := &sock{fd: fd, peer: peer{addr, balance.Key(addr), contains(l.trusted, addr)}}
	if !l.add(s) {
		l.clients.Add(-1)
		return
	}
	l.head.arm(s, l.now)
	if l.draining.Load() {
		l.letGo(s)
	}
}

func (l *loop) clientEvent(s *sock, events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		l.clientGone(s)
		return
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0 {
		s.readable = true
	}
	if events&unix.EPOLLRDHUP != 0 && !s.eof { // it is told again with every event after it
		s.eof = true
		if w := s.work; w != nil && w.body.Done() && w.abandoned() {
			l.clientGone(s)
			return
		}
	}
	if events&unix.EPOLLOUT != 0 && s.waiting() && !l.drained(s) {
		return
	}
	l.pump(s)
}

// drained writes what is pending for a client, and goes on with what waited for that; false when it is gone.
func (l *loop) drained(s *sock) bool {
	if !l.flush(s) {
		l.clientGone(s)
		return false
	}
	switch {
	case s.waiting(): // it took some
		l.clientStall.arm(s, l.now)
	case s.closing != open:
		l.flushed(s)
	case s.work == nil:
		l.idle.arm(s, l.now)
	case s.work.answered:
		l.awaitBody(s.work)
		l.pull(s.work)
	default:
		l.answer.arm(s, l.now)
		l.pull(s.work)
	}
	return !s.dead
}

// pump does what there is to do for a client, for a while.
func (l *loop) pump(s *sock) {
	if s.pumping {
		return
	}
	s.pumping = true
	for n := 0; l.advance(s); n++ {
		if n == fairRounds {
			l.later(s)
			break
		}
	}
	s.pumping = false
}

// advance does one step; false when it has to wait for an event.
func (l *loop) advance(s *sock) bool {
	switch {
	case s.dead:
		return false
	case s.closing == lingering:
		return l.discard(s)
	case s.closing != open:
		return false
	case s.work == nil:
		return l.readHead(s)
	case !s.work.body.Done():
		return l.relayBody(s.work)
	}
	return false
}

// input is what a client has sent and nobody has used: what was kept, else what can be read. It lies in the loop's
// buffer, or in the socket's when kept is set. Without any the client is gone, or has to be waited for.
func (l *loop) input(s *sock) (data []byte, kept bool) {
	if len(s.unread) > s.scanned {
		return s.unread, true
	}
	if !s.readable {
		return nil, false
	}
	n, how := s.read(l.buf)
	switch {
	case how == gotNothing:
		return nil, false
	case how != gotBytes:
		l.clientGone(s)
		return nil, false
	case len(s.unread) > 0:
		l.keep(&s.unread, l.buf[:n])
		return s.unread, true
	}
	return l.buf[:n], false
}

// used takes the first n bytes off the input and keeps the rest.
func (l *loop) used(s *sock, data []byte, kept bool, n int) {
	switch {
	case s.dead:
	case n == len(data):
		l.giveBack(&s.unread)
	case kept:
		s.unread = s.unread[:copy(s.unread, data[n:])]
	default:
		l.keep(&s.unread, data[n:])
	}
}

// readHead looks for the next request.
func (l *loop) readHead(s *sock) bool {
	if s.waiting() {
		return false
	}
	data, kept := l.input(s)
	if data == nil {
		return false
	}
	blank := 0
	if bytes.HasPrefix(data, headEnd[:2]) { // one empty line before a request is ignored, RFC 9112 §2.2
		blank = 2
	}
	from := max(blank, s.scanned-len(headEnd)+1)
	end := from + bytes.Index(data[from:], headEnd) + len(headEnd)
	switch {
	case end < from+len(headEnd) && len(data) <= maxHead:
		l.headBegun(s, data, blank, kept)
	case end < from+len(headEnd) || end > maxHead:
		l.refuse(s, wire.HeadSize)
	default:
		s.scanned = 0
		l.begin(s, data, kept, data[blank:end], end)
	}
	return true
}

// headBegun keeps the beginning of a head.
func (l *loop) headBegun(s *sock, data []byte, blank int, kept bool) {
	if fault := wire.Incomplete(data[blank:], max(0, s.scanned-blank)); fault != nil {
		l.refuse(s, fault)
		return
	}
	if s.timers != &l.head {
		l.head.arm(s, l.now)
	}
	if !kept {
		l.keep(&s.unread, data)
	}
	s.scanned = len(s.unread)
}

// begin begins a call with its head and what of its body has come with it.
func (l *loop) begin(s *sock, data []byte, kept bool, head []byte, end int) {
	if wire.IsHTTP2(head) {
		l.handOver(s, data)
		return
	}
	w, route := l.newWork(s), l.choose.pool.route.Load()
	other, fault := w.take(head, &s.peer, l.lane)
	if fault == nil && !other && !w.body.Done() {
		var n int
		n, fault = w.body.Feed(data[end:])
		w.out = append(w.out, data[end:end+n]...)
		end += n
	}
	switch {
	case fault != nil:
		l.free(w)
		l.refuse(s, fault)
		return
	case other || !route.plain:
		l.free(w)
		l.handOver(s, data)
		return
	}
	l.used(s, data, kept, end) // first: starting may read into the same buffer
	l.start(w, route)
}

func (l *loop) start(w *work, r *route) {
	seat := l.choose.first(r, w.key, l.now)
	if seat == nil {
		l.answerOwn(w, http.StatusServiceUnavailable, "no_backend")
		return
	}
	w.begin(seat, l.now)
	l.attempt(w, false)
}

// relayBody passes on more of a request's body.
func (l *loop) relayBody(w *work) bool {
	s, u := w.client, w.upstream
	if w.sink || u == nil || u.waiting() {
		return false
	}
	data, kept := l.input(s)
	if data == nil {
		return false
	}
	n, fault := w.body.Feed(data)
	w.whole = false
	if fault != nil {
		l.refuseBody(w, fault)
		return true
	}
	l.uploaded(w)
	if _, ok := l.send(u, data[:n]); !ok {
		l.used(s, data, kept, n)
		l.unsent(w)
		return true
	}
	l.used(s, data, kept, n)
	return true
}

// uploaded notes that the request's body makes progress.
func (l *loop) uploaded(w *work) {
	switch {
	case !w.answered:
		l.answer.arm(w.client, l.now)
	case !w.client.waiting():
		l.awaitBody(w)
	}
}

// clientIsDue reports whether the call waits for its client's body.
func (w *work) clientIsDue() bool {
	u := w.upstream
	return !w.body.Done() && u != nil && !u.waiting() && !w.expecting()
}

func (l *loop) newWork(s *sock) *work {
	var w *work
	if n := len(l.works); n > 0 {
		w, l.works = l.works[n-1], l.works[:n-1]
	} else {
		w = new(work)
	}
	w.client, s.work = s, w
	return w
}

// free ends a call's hold on its connections; the one to the backend closes, unless it was given back before.
func (l *loop) free(w *work) {
	l.drop(w)
	w.client.work = nil
	w.client.disarm()
	w.reset()
	w.client, w.reused, w.heard, w.sink = nil, false, false, false
	if cap(w.out) <= largestSpare && len(l.works) < spareCalls {
		l.works = append(l.works, w)
	}
}
