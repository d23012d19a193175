package proxy

import "net/http"

// awaitBody bounds the wait for more of an answer's body.
func (l *loop) awaitBody(w *work) {
	if w.answer.Announced() {
		l.backendPause.arm(w.client, l.now)
		return
	}
	l.backendStall.arm(w.client, l.now)
}

// paused tells the health checks of a backend's pause in a body of announced length, and goes on waiting.
func (l *loop) paused(s *sock) {
	if x := &s.work.exchange; !s.work.clientIsDue() {
		l.choose.pool.stalled(x.seat.server, x.began)
	}
	l.backendRest.arm(s, l.now)
}

// lost sends elsewhere what waits for the answer of a backend that has been lost and can be sent once more.
func (l *loop) lost(b *server) {
	for i := l.idles[b]; i != nil && i.top != nil; {
		l.kill(i.top)
	}
	var waiting []*work
	for s := l.answer.head; s != nil; s = s.next {
		if u := s.work.upstream; u != nil && u.server == b && s.work.mayRetry(u.connecting) {
			waiting = append(waiting, s.work)
		}
	}
	for _, w := range waiting {
		u := w.upstream
		if u == nil || u.server != b || !w.mayRetry(u.connecting) { // what was done for the others has changed it
			continue
		}
		neverSent := u.connecting
		l.drop(w)
		if next := w.retry(l.lane, l.now, neverSent); next != nil {
			w.begin(next, l.now)
			l.attempt(w, false)
			continue
		}
		l.answerOwn(w, http.StatusGatewayTimeout, "timeout")
	}
}
