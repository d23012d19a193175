package proxy

import (
	"bytes"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"

	"retune/proxy/traffic"
	"retune/proxy/wire"
)

// How a client's requests and connections end, other than by an answer that has come whole.

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

// refuseBody ends a call whose body is malformed.
func (l *loop) refuseBody(w *work, fault *wire.Fault) {
	s := w.client
	w.end(l.now, traffic.Aborted)
	begun := w.answered
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
	l.log.Debug("a request failed", "status", status, "cause", cause)
	last := w.last || !w.body.Done() || l.draining.Load()
	l.out = l.appendOwn(l.out[:0], status, cause, last, w.toHEAD)
	w.last = last
	if l.say(w.client, l.out) {
		l.done(w)
	}
}

// say sends to a client; when that can't be done it is gone, its call with it, and say returns false.
func (l *loop) say(s *sock, b []byte) bool {
	_, ok := l.send(s, b)
	if !ok {
		l.clientGone(s)
	}
	return ok
}

// done goes on after a call's answer has been written.
func (l *loop) done(w *work) {
	s, last := w.client, w.last
	sending := !w.parting || !w.body.Done() || s.readable || len(s.unread) > 0 // a pipeline may be on its way
	l.free(w)
	switch {
	case s.dead:
	case last || l.draining.Load():
		l.end(s, sending)
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
	if s.resets {
		s.setReset(false)
	}
	if s.closing == flushing || unix.Shutdown(s.fd, unix.SHUT_WR) != nil {
		l.kill(s)
		return
	}
	s.closing = lingering
	l.giveBack(&s.unread)
	l.linger.arm(s, l.now)
	l.pump(s)
}

// unlessTaking kills a client's connection that has waited for as long as t, but not while the client goes on taking
// its last answer out of the kernel's buffer: what it sends meanwhile would reset the connection, and the answer with it.
func (l *loop) unlessTaking(t *timers) func(*sock) {
	return func(s *sock) {
		before := s.held
		s.held = held(uintptr(s.fd))
		if s.held == 0 || s.held == before {
			l.kill(s)
			return
		}
		t.arm(s, l.now)
	}
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

// headLate refuses a head that takes too long; a connection that never said anything just ends.
func (l *loop) headLate(s *sock) {
	if len(s.unread) == 0 {
		l.kill(s)
		return
	}
	l.refuse(s, wire.HeadTime)
}

// answerLate ends a call that has stood still for too long: the client's fault while the rest of its body is due.
func (l *loop) answerLate(s *sock) {
	w := s.work
	if w.clientIsDue() {
		l.refuseBody(w, wire.BodyTime)
		return
	}
	w.end(l.now, traffic.Failure)
	l.drop(w)
	l.answerOwn(w, http.StatusGatewayTimeout, "timeout")
}

// bodyLate ends a call whose answer has stood still for too long in the middle.
func (l *loop) bodyLate(s *sock) {
	if s.work.clientIsDue() {
		l.refuseBody(s.work, wire.BodyTime)
		return
	}
	l.broken(s.work, false)
}

// handOver gives a connection to the full lane, with what has been read of it.
func (l *loop) handOver(s *sock, data []byte) {
	read := bytes.Clone(data)
	conn, err := l.detach(s)
	l.kill(s)
	if err != nil {
		l.log.Warn("a connection can't be handed over", "error", err)
		return
	}
	go l.handover.give(conn, read)
}

// detach makes a net.Conn of a client's connection. The loop's own descriptor stays until the end of the batch.
func (l *loop) detach(s *sock) (net.Conn, error) {
	if err := unix.EpollCtl(l.ep, unix.EPOLL_CTL_DEL, s.fd, nil); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "client")
	defer func() { _ = f.Close() }()
	return net.FileConn(f)
}

// drainIdle closes the connections that wait for a request.
func (l *loop) drainIdle() {
	for _, s := range l.socks {
		if s != nil && !s.upstream {
			l.letGo(s)
		}
	}
}

// letGo closes a client's connection that waits for a request, after what it is still taking. One that has begun to
// come is served.
func (l *loop) letGo(s *sock) {
	s.readable = true // the event that says so may not have been handled yet
	l.pump(s)
	if s.work == nil && s.closing == open && len(s.unread) == 0 {
		l.end(s, false)
	}
}
