package proxy

import (
	"bytes"
	"net"
	"net/http"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"retune/proxy/balance"
	"retune/proxy/traffic"
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
	l.idle.arm(s, l.now)
	if l.draining.Load() {
		l.kill(s)
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
	if events&unix.EPOLLRDHUP != 0 {
		s.eof = true
		if s.work != nil && s.work.body.Done() { // nobody waits for this answer
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
		l.backendStall.arm(s, l.now)
		l.pull(s.work)
	default:
		l.answer.arm(s, l.now)
		l.pull(s.work)
	}
	return !s.dead
}

// clientGone ends a client's connection and what it asked for.
func (l *loop) clientGone(s *sock) {
	if w := s.work; w != nil {
		w.end(l.now, traffic.Aborted)
		if !w.answered {
			l.meters.own("client_gone").Inc()
		}
		l.free(w)
	}
	l.kill(s)
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

var headEnd = []byte("\r\n\r\n")

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
	end := blank + bytes.Index(data[blank:], headEnd) + len(headEnd)
	switch {
	case end < blank+len(headEnd) && len(data) <= maxHead:
		l.headBegun(s, data, blank, kept)
	case end < blank+len(headEnd) || end > maxHead:
		l.refuse(s, wire.HeadSize)
	default:
		s.scanned = 0
		l.begin(s, data, kept, data[blank:end], end)
	}
	return true
}

// headBegun keeps the beginning of a head.
func (l *loop) headBegun(s *sock, data []byte, blank int, kept bool) {
	if fault := wire.Incomplete(data[blank:]); fault != nil {
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
	w := l.newWork(s)
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
	case other || !l.choose.pool.route.Load().plain:
		l.free(w)
		l.handOver(s, data)
		return
	}
	l.used(s, data, kept, end) // first: starting may read into the same buffer
	l.start(w)
}

func (l *loop) start(w *work) {
	seat := l.choose.first(w.key, l.now)
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
	switch {
	case fault != nil:
		l.refuseBody(w, fault)
		return true
	case !w.answered:
		l.answer.arm(s, l.now)
	}
	if _, ok := l.send(u, data[:n]); !ok {
		l.used(s, data, kept, n)
		l.unsent(w)
		return true
	}
	l.used(s, data, kept, n)
	return true
}

// refuseBody ends a call whose body is malformed.
func (l *loop) refuseBody(w *work, fault *wire.Fault) {
	s := w.client
	w.end(l.now, traffic.Aborted)
	begun := w.started
	l.free(w)
	if begun {
		l.kill(s)
		return
	}
	l.refuse(s, fault)
}

// refuse answers what is no request that could be passed on; it is the last answer on its connection.
func (l *loop) refuse(s *sock, fault *wire.Fault) {
	l.log.Debug("a request was refused", "status", fault.Status, "cause", fault.Cause)
	l.giveBack(&s.unread)
	l.out = l.appendOwn(l.out[:0], fault.Status, "malformed_request", true, false)
	l.say(s, l.out)
	l.end(s, true)
}

// answerOwn answers a call in place of a backend, and ends it.
func (l *loop) answerOwn(w *work, status int, cause string) {
	last := w.last || !w.body.Done()
	l.out = l.appendOwn(l.out[:0], status, cause, last, w.toHEAD)
	w.last = last
	if l.say(w.client, l.out); !w.client.dead {
		l.done(w)
	}
}

// say sends to a client, which is gone when that can't be done.
func (l *loop) say(s *sock, b []byte) {
	if _, ok := l.send(s, b); !ok {
		l.clientGone(s)
	}
}

// done goes on after a call's answer has been written.
func (l *loop) done(w *work) {
	s, last, unfinished := w.client, w.last, !w.body.Done()
	l.free(w)
	switch {
	case s.dead:
	case last || l.draining.Load():
		l.end(s, unfinished)
	case s.waiting():
		l.clientStall.arm(s, l.now)
	default:
		l.idle.arm(s, l.now)
		l.pump(s)
	}
}

// end closes a client's connection after what is pending; linger: it may still be sending.
func (l *loop) end(s *sock, linger bool) {
	if s.dead {
		return
	}
	s.closing = flushing
	if linger {
		s.closing = flushing2
	}
	if s.waiting() {
		l.clientStall.arm(s, l.now)
		return
	}
	l.flushed(s)
}

// flushed closes a client's connection, or lets it linger.
func (l *loop) flushed(s *sock) {
	if s.closing == flushing || unix.Shutdown(s.fd, unix.SHUT_WR) != nil {
		l.kill(s)
		return
	}
	s.closing = lingering
	l.giveBack(&s.unread)
	l.linger.arm(s, l.now)
	l.pump(s)
}

// discard throws away what a lingering client sends.
func (l *loop) discard(s *sock) bool {
	if !s.readable {
		return false
	}
	switch _, how := s.read(l.buf); how {
	case gotBytes:
		return true
	case gotEnd, gotError:
		l.kill(s)
	}
	return false
}

func (l *loop) headLate(s *sock) { l.refuse(s, wire.HeadTime) }

// answerLate ends a call that has stood still for too long: the client's fault while the rest of its body is due.
func (l *loop) answerLate(s *sock) {
	w := s.work
	if u := w.upstream; !w.body.Done() && u != nil && !u.waiting() {
		l.refuseBody(w, wire.BodyTime)
		return
	}
	w.end(l.now, traffic.Failure)
	l.drop(w)
	l.answerOwn(w, http.StatusGatewayTimeout, "timeout")
}

// handOver gives a connection to the full lane, with what has been read of it.
func (l *loop) handOver(s *sock, data []byte) {
	s.disarm()
	read := bytes.Clone(data)
	_ = unix.EpollCtl(l.ep, unix.EPOLL_CTL_DEL, s.fd, nil)
	f := os.NewFile(uintptr(s.fd), "client")
	conn, err := net.FileConn(f)
	_ = f.Close()
	l.socks[s.fd] = nil
	s.fd, s.dead = -1, true
	l.giveBack(&s.unread)
	l.clients.Add(-1)
	if err != nil {
		l.log.Warn("a connection can't be handed over", "error", err)
		return
	}
	go l.handover.give(conn, read)
}

// drainIdle closes the connections that wait for a request.
func (l *loop) drainIdle() {
	for _, s := range l.socks {
		if s != nil && !s.upstream && s.work == nil && s.closing == open && !s.waiting() {
			l.kill(s)
		}
	}
}

func (l *loop) newWork(s *sock) *work {
	w := new(work)
	if n := len(l.works); n > 0 {
		w, l.works = l.works[n-1], l.works[:n-1]
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
	*w = work{call: w.call}
	if cap(w.out) <= largestSpare && len(l.works) < spareCalls {
		l.works = append(l.works, w)
	}
}
