package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"retune/proxy/traffic"
)

// attempt sends a call's request to its backend, on a connection that is there or, when fresh is set, on a new one.
func (l *loop) attempt(w *work, fresh bool) {
	var u *sock
	if !fresh {
		u = l.takeIdle(w.seat.server, !w.idempotent || !w.body.Done())
	}
	if w.reused = u != nil; u == nil {
		u = l.dialTo(w.seat.server)
	}
	w.heard, w.sink = false, false
	if u == nil {
		l.broken(w, true)
		return
	}
	w.upstream, u.work = u, w
	l.answer.arm(w.client, l.now)
	if !u.connecting {
		l.sendRequest(w)
	}
}

// sendRequest sends what has been taken of the request, and what has come of its body since then.
func (l *loop) sendRequest(w *work) {
	n, ok := l.send(w.upstream, w.out)
	switch {
	case ok:
		l.pump(w.client)
	case n == 0 && w.reused: // it had been closed: nothing has reached the backend
		l.drop(w)
		l.attempt(w, true)
	default:
		l.unsent(w)
	}
}

// unsent goes on after the backend has taken no more of a request: its answer may be there already, and is the last
// that it says.
func (l *loop) unsent(w *work) {
	u := w.upstream
	w.sink, u.readable, u.eof, u.written = true, true, true, 0
	l.giveBack(&u.pending)
	l.pull(w)
}

// takeIdle is the connection to a backend that was used last; nil when there is none. sure: it must be open, since what
// goes into it can't be sent again.
func (l *loop) takeIdle(b *server, sure bool) *sock {
	i := l.idles[b]
	for i != nil && i.top != nil {
		u := i.top
		i.remove(u)
		// One that became idle in this very moment is not looked at: that costs as much as a small request's send.
		if sure && u.due-l.upstreamIdle.after != l.now && !u.alive() {
			l.kill(u)
			continue
		}
		u.disarm()
		return u
	}
	return nil
}

// putIdle keeps a connection for the next request.
func (l *loop) putIdle(u *sock) {
	i := l.idles[u.server]
	if i == nil {
		i = new(idles)
		l.idles[u.server] = i
	}
	if i.n >= mostIdle {
		l.kill(u)
		return
	}
	i.push(u)
	l.upstreamIdle.arm(u, l.now)
}

// forgetIdle takes a connection that ends out of the idle ones, and forgets a backend that has none left.
func (l *loop) forgetIdle(u *sock) {
	if i := l.idles[u.server]; i != nil {
		if u.idle {
			i.remove(u)
		}
		if i.n == 0 {
			delete(l.idles, u.server)
		}
	}
}

// idles is a stack of connections to one backend that wait for the next request.
type idles struct {
	top *sock
	n   int
}

func (i *idles) push(u *sock) {
	if u.idle, u.below = true, i.top; i.top != nil {
		i.top.above = u
	}
	i.top = u
	i.n++
}

func (i *idles) remove(u *sock) {
	if u.above != nil {
		u.above.below = u.below
	} else {
		i.top = u.below
	}
	if u.below != nil {
		u.below.above = u.above
	}
	u.idle, u.above, u.below = false, nil, nil
	i.n--
}

// dialTo begins a connection to a backend; nil when that can't even begin.
func (l *loop) dialTo(b *server) *sock {
	u := &sock{fd: -1, upstream: true, connecting: true, server: b}
	if !b.address.IsValid() {
		go l.dialByName(u, withPort(b.URL()))
		return u // the dialer has its own time limit
	}
	var err error
	if u.fd, u.connecting, err = connect(b.address); err != nil {
		l.log.Debug("a backend can't be reached", "backend", b.ID(), "error", err)
		return nil
	}
	if !l.add(u) {
		return nil
	}
	if u.connecting {
		l.dial.arm(u, l.now)
	}
	return u
}

// dialByName resolves and dials on a goroutine of its own, as the full lane does, and hands the descriptor to the loop.
func (l *loop) dialByName(u *sock, address string) {
	fd := -1
	if c, err := newDialer().DialContext(context.Background(), "tcp", address); err == nil {
		if raw, err := c.(*net.TCPConn).SyscallConn(); err == nil {
			_ = raw.Control(func(d uintptr) { fd, _ = unix.FcntlInt(d, syscall.F_DUPFD_CLOEXEC, 0) })
		}
		_ = c.Close()
	}
	l.tell(note{fd: fd, dialed: u})
}

// dialedByName goes on when the dialer has come back.
func (l *loop) dialedByName(u *sock, fd int) {
	if u.dead { // nobody waits for it any more
		(&note{fd: fd}).discard()
		return
	}
	u.connecting = false
	if u.fd = fd; fd < 0 || !l.add(u) {
		u.fd = -1
		l.broken(u.work, true)
		return
	}
	l.sendRequest(u.work)
}

func (l *loop) upstreamEvent(u *sock, events uint32) {
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	w := u.work
	if w == nil {
		if events&(unix.EPOLLIN|over) != 0 { // closed, or it speaks without being asked
			l.kill(u)
		}
		return
	}
	if events&(unix.EPOLLIN|over) != 0 {
		u.readable = true
		u.eof = u.eof || events&over != 0
	}
	switch {
	case u.connecting:
		l.connected(u, events&(unix.EPOLLHUP|unix.EPOLLERR) == 0)
	case events&unix.EPOLLOUT != 0 && u.waiting():
		l.taken(u)
	}
	if u.work == w { // what has come may have come with the connection
		l.pull(w)
	}
}

// taken goes on when a backend takes more of a request.
func (l *loop) taken(u *sock) {
	w := u.work
	if !l.flush(u) {
		l.unsent(w)
		return
	}
	l.uploaded(w)
	l.pump(w.client)
}

// connected goes on when a new connection is there, or can't be had.
func (l *loop) connected(u *sock, ok bool) {
	u.disarm()
	u.connecting = false
	if !ok {
		l.broken(u.work, true)
		return
	}
	l.sendRequest(u.work)
}

// pull passes on what there is of a call's answer, for a while.
func (l *loop) pull(w *work) {
	s, u := w.client, w.upstream
	for round := 0; u != nil && u.work == w && u.readable && !s.waiting(); round++ {
		if round == fairRounds {
			l.later(u)
			return
		}
		switch n, how := u.read(l.buf); how {
		case gotBytes:
			l.answerBytes(w, l.buf[:n])
		case gotEnd:
			if w.answered && w.answer.EndsWithConnection() {
				w.reusable = false
				l.completed(w)
				return
			}
			l.broken(w, false)
		case gotError:
			l.broken(w, false)
		}
	}
}

// answerBytes takes the next bytes from the backend.
func (l *loop) answerBytes(w *work, data []byte) {
	w.heard = true
	if w.answered {
		l.passOn(w, data, 0, nil)
		return
	}
	kept := w.upstream.unread
	if len(kept) > 0 {
		l.keep(&kept, data)
		data = kept
	}
	w.upstream.unread = nil
	l.answerHeads(w, data)
	l.giveBack(&kept)
}

// answerHeads takes bytes that begin with a head: interim ones, and the answer's with what follows it.
func (l *loop) answerHeads(w *work, data []byte) {
	for len(data) > 0 {
		end := bytes.Index(data, headEnd) + len(headEnd)
		switch whole := end >= len(headEnd); {
		case whole && end > maxHead, !whole && len(data) > maxHead:
			l.broken(w, false)
			return
		case !whole:
			l.keep(&w.upstream.unread, data)
			return
		}
		edited, direct, fault := w.heed(data[:end], l.out[:0], l.now, l.lane)
		if fault != nil {
			l.log.Debug("an answer can't be passed on", "backend", w.seat.ID(), "cause", fault.Cause)
			l.broken(w, false)
			return
		}
		if direct {
			edited = data[:end]
		} else {
			l.out = edited
		}
		if w.answered {
			if w.answer.EndsWithConnection() {
				w.client.setReset(true)
			}
			l.passOn(w, data, end, edited)
			return
		}
		if !l.say(w.client, edited) {
			return
		}
		if !w.body.Done() { // it may have been what the client waited for
			l.answer.arm(w.client, l.now)
		}
		data = data[end:]
	}
}

// passOn writes bytes of an answer in one go. data[:end] is its head, which goes out as head; what follows is of its
// body.
func (l *loop) passOn(w *work, data []byte, end int, head []byte) {
	n, fault := w.answer.Feed(data[end:])
	if end+n < len(data) { // more than an answer: nobody can say whose
		w.reusable = false
	}
	s, b := w.client, data[:end+n]
	if start := end - len(head); start >= 0 { // the head goes right before the body, where there is room for it
		copy(b[start:], head)
		b = b[start:]
	} else {
		l.out = append(head, b[end:]...)
		b = l.out
	}
	if w.answer.Done() {
		w.end(l.now, traffic.Success) // before the client can know
	} else {
		w.exchange.flow(l.now)
	}
	if _, ok := l.send(s, b); !ok {
		l.clientGone(s)
		return
	}
	switch {
	case fault != nil:
		l.broken(w, false)
	case w.answer.Done():
		l.completed(w)
	case s.waiting():
		l.clientStall.arm(s, l.now)
	default:
		l.awaitBody(w)
	}
}

// completed ends a call whose answer has come whole.
func (l *loop) completed(w *work) {
	w.end(l.now, traffic.Success)
	if u := w.upstream; w.reusable && w.body.Done() && !u.eof && !u.waiting() && (!u.readable || u.alive()) {
		l.giveBack(&u.unread)
		w.upstream, u.work = nil, nil
		l.putIdle(u)
	}
	l.done(w)
}

// broken goes on after the connection to a backend is of no more use. neverSent: no byte of the request has reached it.
func (l *loop) broken(w *work, neverSent bool) {
	l.drop(w)
	if w.answered { // half an answer: the client must see that
		w.end(l.now, traffic.Failure)
		s := w.client
		l.free(w)
		l.kill(s)
		return
	}
	if w.reused && !w.heard && w.whole && w.idempotent {
		l.attempt(w, true) // an idle connection's end is no failure of the backend
		return
	}
	if next := w.retry(l.lane, l.now, neverSent); next != nil {
		w.begin(next, l.now)
		l.attempt(w, false)
		return
	}
	cause := "broken_answer"
	if neverSent {
		cause = "connect"
	}
	l.answerOwn(w, http.StatusBadGateway, cause)
}

// drop closes a call's connection to its backend.
func (l *loop) drop(w *work) {
	if u := w.upstream; u != nil {
		w.upstream, u.work = nil, nil
		l.kill(u)
	}
}
