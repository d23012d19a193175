package proxy

import (
	"bytes"
	"errors"
	"io"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

// task is a call on its way, with its two connections. Tasks are used again.
type task struct {
	call
	client *client
	up     *upstream // nil between attempts
	reply  []byte    // a head that was edited, or an answer of the proxy's own
	since  int64     // when the backend made progress last, balance.Now
	began  int64     // when the connection was last asked
	paused bool      // the health checks know that the backend pauses in this answer

	uplink
}

// refusal is why the client's body can't be passed on.
type refusal struct{ *wire.Fault }

var (
	errGone   = errors.New("the client has left")
	errUsedUp = errors.New("the backend had closed the connection")
)

// free lets go of what the call had.
func (t *task) free() {
	e := t.client.goroutines
	t.reset()
	*t = task{call: t.call, reply: t.reply[:0], uplink: uplink{over: t.over}}
	if cap(t.out) <= maxHead && cap(t.reply) <= maxHead {
		e.tasks.Put(t)
	}
}

// run has the request answered by a backend of a route.
func (t *task) run(r *route) ending {
	c := t.client
	t.since = c.now
	s := c.choose.first(r, t.key, c.now)
	if s == nil {
		return t.fail(errNoBackend)
	}
	for s != nil {
		t.begin(s, c.now)
		err := t.try()
		if err == nil {
			return t.relay()
		}
		if s = t.another(err); s == nil {
			return t.fail(err)
		}
	}
	return endNow
}

// try sends the request to one backend, until the head of its answer has been passed on. A connection that was kept
// may have closed meanwhile: that is nobody's failure, and what may be sent again is, on a new one.
func (t *task) try() error {
	for kept := true; ; {
		t.sent = 0
		reused, err := t.connect(kept)
		if err != nil {
			return err
		}
		if err = t.attempt(reused); err == nil {
			return nil
		}
		silent := len(t.up.unread()) == 0
		err = t.broken(err)
		switch {
		case errors.Is(err, errUsedUp):
		case reused && silent && t.whole && !t.started && (t.idempotent || t.sent == 0) && backendsOwn(err):
			kept = false
		default:
			return err
		}
	}
}

// broken closes the connection to the backend after an error, and says what the matter was.
func (t *task) broken(err error) error {
	t.part(false)
	if trouble := t.trouble(); trouble != nil {
		return trouble
	}
	if t.client.ctx.Err() != nil { // it was the engine that closed it
		return errGone
	}
	return err
}

// backendsOwn reports whether an attempt failed by the backend alone, and in time.
func backendsOwn(err error) bool {
	return !errors.Is(err, errGone) && !errors.Is(err, errTimeout) && !errors.As(err, new(refusal))
}

// another ends a failed attempt, and finds the backend for the next one; nil when there is none.
func (t *task) another(err error) *seat {
	if t.answered || !backendsOwn(err) && !errors.Is(err, errLost) {
		return nil
	}
	return t.retry(t.client.lane, t.client.now, t.sent == 0)
}

// attempt sends the request and passes on what comes, until that has the answer's head.
func (t *task) attempt(reused bool) error {
	u := t.up
	t.began, t.sent = t.client.now, 0
	if !t.body.Done() {
		if reused && u.usedUp() {
			return errUsedUp
		}
		t.start(t.out)
	}
	for asked := t.busy; !t.answered; {
		if err := t.hear(asked, reused); err != nil {
			return err
		}
		asked = true
		if err := t.heads(); err != nil {
			return err
		}
	}
	return nil
}

// hear waits for more from the backend, and sends it the request when it has not been asked.
func (t *task) hear(asked, reused bool) error {
	c, u := t.client, t.up
	for {
		if t.busy {
			u.bound(c.now, 0, max(t.patience()-t.still(), time.Millisecond))
			if err := t.trouble(); err != nil {
				return err
			}
		} else {
			u.bound(c.now, watchAfter, 2*watchAfter)
		}
		if u.lost.Load() && t.movable() { // looked at behind the deadline, which may have undone the wake
			return errLost
		}
		var err error
		if asked {
			err = u.fill()
		} else if t.sent, err = u.ask(t.out, reused); err == nil && len(u.unread()) == 0 {
			t.start(t.out[t.sent:]) // there is no room for all of it
			err = u.fill()
		}
		asked = asked || t.busy || t.sent > 0
		c.now = balance.Now()
		if !u.late(err) {
			return err
		}
		if err := t.waited(asked); err != nil {
			return err
		}
	}
}

// limit is how long there may be no progress.
func (t *task) limit() time.Duration {
	if t.answered {
		if !t.answer.Announced() {
			return bodyStall
		}
	}
	return t.client.timeouts.request
}

// patience is how long there may be no progress until something has to be done about it.
func (t *task) patience() time.Duration {
	if t.answered && t.answer.Announced() && !t.paused {
		return min(stallTime, t.limit())
	}
	return t.limit()
}

// still is for how long there has been no progress.
func (t *task) still() time.Duration {
	return time.Duration(t.client.now - max(t.since, t.moved.Load()))
}

// waited judges a wait that its deadline has ended: it may go on, with an eye on the client.
func (t *task) waited(asked bool) error {
	c := t.client
	if err := t.trouble(); err != nil {
		return err
	}
	switch still := t.still(); {
	case still >= t.limit() && t.clientIsDue():
		return refusal{wire.BodyTime}
	case still >= t.limit():
		return errTimeout
	case still >= t.patience():
		if t.paused = true; !t.clientIsDue() {
			c.choose.pool.stalled(t.seat.server, t.exchange.began)
		}
	}
	if asked && !t.busy && time.Duration(c.now-t.began) >= watchAfter {
		t.start(nil)
	}
	return nil
}

// heads passes on the heads that are unread, and what follows the answer's.
func (t *task) heads() error {
	c, u := t.client, t.up
	for in := u.unread(); !t.answered && len(in) > 0; in = u.unread() {
		i := bytes.Index(in[u.scanned:], headEnd)
		if i < 0 {
			if u.full() {
				return wire.HeadSize
			}
			u.scanned = max(0, len(in)-len(headEnd)+1)
			return nil
		}
		end := u.scanned + i + len(headEnd)
		t.mu.Lock() // heed looks at the request's body
		edited, direct, fault := t.heed(in[:end], t.reply[:0], c.now, c.lane)
		t.mu.Unlock()
		if fault != nil {
			return fault
		}
		n, fault := t.answer.Feed(in[end:])
		b := in[:end+n]
		if !direct {
			b = append(edited, in[end:end+n]...)
			t.reply = b[:0]
		}
		if t.answered && t.answer.EndsWithConnection() {
			_ = c.SetLinger(0) // until it is whole its end is a reset, whoever closes it: an orderly one would look like all of it
		}
		if err := t.pass(b, fault); err != nil {
			return err
		}
		u.use(end + n)
	}
	return nil
}

// pass writes bytes of an answer; fault is what comes after them.
func (t *task) pass(b []byte, fault *wire.Fault) error {
	if t.answered && t.answer.Done() {
		t.end(t.client.now, traffic.Success) // before the client can know
	}
	if t.client.say(b) != nil {
		return errGone
	}
	if fault != nil {
		return fault
	}
	return nil
}

// relay passes on the rest of the answer, and ends the call.
func (t *task) relay() ending {
	c, u := t.client, t.up
	if !t.answer.Done() {
		t.exchange.flow(c.now)
	}
	for !t.answer.Done() {
		c.now = balance.Now() // the clock stood while the client took its time
		t.since, t.paused = c.now, false
		err := t.hear(true, true)
		if errors.Is(err, io.EOF) && t.answer.EndsWithConnection() {
			t.reusable = false
			_ = c.SetLinger(-1)
			break
		}
		if err == nil {
			err = t.more()
		}
		if err != nil {
			return t.fail(t.broken(err))
		}
	}
	t.end(c.now, traffic.Success)
	t.part(t.reusable && len(u.unread()) == 0) // more than an answer: nobody can say whose
	switch {
	case !t.body.Done() || t.last && (!t.parting || len(c.unread()) > 0): // a pipeline may be on its way
		return endLinger
	case t.last:
		return endNow
	}
	return endNot
}

// more passes on what is unread of the answer's body.
func (t *task) more() error {
	in := t.up.unread()
	n, fault := t.answer.Feed(in)
	if err := t.pass(in[:n], fault); err != nil {
		return err
	}
	t.up.use(n)
	return nil
}

// fail ends a call that has no answer, or half of one, and says so to the client.
func (t *task) fail(err error) ending {
	c := t.client
	var f refusal
	gone := errors.Is(err, errGone)
	if errors.As(err, &f) || gone {
		t.end(c.now, traffic.Aborted)
	}
	t.end(c.now, traffic.Failure)
	switch {
	case f.Fault != nil && !t.answered:
		return c.refuse(f.Fault)
	case t.answered:
		return endNow
	case gone:
		c.meters.own("client_gone").Inc()
		return endNow
	}
	for _, a := range errorAnswers {
		if a.is(err) {
			c.log.Debug("a request failed", "cause", a.cause, "error", err)
			return t.own(a.status, a.cause)
		}
	}
	return endNow
}

// own answers in place of a backend.
func (t *task) own(status int, cause string) ending {
	c := t.client
	unfinished := !t.body.Done()
	last := t.last || unfinished || c.draining.Load()
	t.reply = c.appendOwn(t.reply[:0], status, cause, last, t.toHEAD)
	switch err := c.say(t.reply); {
	case err != nil:
		return endNow
	case unfinished, last && !t.parting:
		return endLinger
	case last:
		return endNow
	}
	return endNot
}
