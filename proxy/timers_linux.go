package proxy

import (
	"time"

	"retune/proxy/wire"
)

// timers is a list of sockets that all wait for the same length of time, so that the first one is always the next to
// be due: arming, disarming and expiring take constant time, however many there are.
type timers struct {
	after      int64 // nanoseconds
	expire     func(*sock)
	head, tail *sock
}

// arm makes a socket due in t.after; it leaves the list that it was in.
func (t *timers) arm(s *sock, now int64) {
	s.disarm()
	s.timers, s.due, s.prev = t, now+t.after, t.tail
	if t.tail == nil {
		t.head = s
	} else {
		t.tail.next = s
	}
	t.tail = s
}

// disarm takes a socket out of its list.
func (s *sock) disarm() {
	t := s.timers
	if t == nil {
		return
	}
	if s.prev == nil {
		t.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		t.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.timers, s.prev, s.next = nil, nil, nil
}

// lists are a loop's timers. A socket waits for one thing at a time.
type lists struct {
	idle         timers // a client, for its next request
	head         timers // a client, in the middle of a head
	answer       timers // a client, for the backend's answer
	backendPause timers // a client, for more of an answer's body of announced length …
	backendRest  timers // … and for what is left of the time limit after that
	backendStall timers // a client, for more of an answer's body that has none
	clientStall  timers // a client, to take what is pending
	linger       timers // a client, to close
	dial         timers // a connection to a backend, to be there
	upstreamIdle timers // a connection to a backend, for the next request
}

func (l *loop) initTimers() {
	set := func(t *timers, after time.Duration, expire func(*sock)) {
		t.after, t.expire = int64(after), expire
		l.timers = append(l.timers, t)
	}
	set(&l.idle, l.timeouts.idle, l.unlessTaking(&l.idle))
	set(&l.head, l.timeouts.head, l.headLate)
	set(&l.answer, l.timeouts.request, l.answerLate)
	pause := min(stallTime, l.timeouts.request)
	set(&l.backendPause, pause, l.paused)
	set(&l.backendRest, l.timeouts.request-pause, l.bodyLate)
	set(&l.backendStall, bodyStall, l.bodyLate)
	set(&l.clientStall, wire.ClientStall, l.clientGone)
	set(&l.linger, wire.LingerTime, l.unlessTaking(&l.linger))
	set(&l.dial, dialTime, func(u *sock) { l.broken(u.work, true) })
	set(&l.upstreamIdle, upstreamIdle, l.kill)
}

// expire ends the waiting of every socket that is due.
func (l *loop) expire() {
	for _, t := range l.timers {
		for s := t.head; s != nil && s.due <= l.now; s = t.head {
			s.disarm()
			t.expire(s)
		}
	}
}

const never = 1<<63 - 1

// nextDue is when the next socket is due.
func (l *loop) nextDue() int64 {
	next := int64(never)
	for _, t := range l.timers {
		if t.head != nil {
			next = min(next, t.head.due)
		}
	}
	return next
}
