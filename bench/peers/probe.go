//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The probe keeps this many connections, and records nothing in its first moments, while they are made and warmed.
const (
	probeConnections = 32
	probeWarm        = 200 * time.Millisecond
	probeGrace       = 2 * time.Second // after the last request is due, for what is still under way
)

// probeResult is what an open load saw. Latencies are microseconds from the instant that a request was due, so that
// one which waits because those before it are slow is not forgiven.
type probeResult struct {
	Requests int     `json:"requests"` // that were due, the warm-up's too
	Errors   int     `json:"errors"`   // other than 2xx, broken, or never answered
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	LateP99  float64 `json:"late_p99_us"` // how late requests were sent: the probe's own part in the latency
}

// probe is an open load: requests at even intervals, whatever becomes of those before. The built-in driver of
// orchestrator/loadtest makes one too, but by goroutines and a clock of milliseconds; this one is a loop in one thread
// with the kernel's timer, and exact to microseconds.
type probe struct {
	*poller
	address  unix.Sockaddr
	request  []byte
	conns    map[int32]*probed
	free     []*probed   // oldest first, so that all are used in turn
	waiting  []time.Time // requests that are due and have no connection
	buf      []byte
	result   probeResult
	answered int
	record   time.Time // requests due from then on are recorded
	latency  []float64
	late     []float64
}

// probed is a connection with at most one request under way.
type probed struct {
	fd   int
	due  time.Time
	head []byte // of an answer whose head has not arrived to its end
	body int    // bytes still to come; -1 while the head is
}

// runProbe loads an address with rate requests per second and writes the result as JSON.
func runProbe(address string, rate int, d time.Duration, w io.Writer) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	loop, err := newPoller()
	if err != nil {
		return err
	}
	p := &probe{
		poller: loop, address: &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()},
		request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", smallPath, address, headerLines()),
		conns:   map[int32]*probed{}, buf: make([]byte, 64<<10),
	}
	for range probeConnections {
		if err := p.connect(); err != nil {
			return fmt.Errorf("connecting to %s: %w", address, err)
		}
	}
	if err := p.load(rate, int(d.Seconds()*float64(rate))); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(p.sum())
}

// connect makes one more connection.
func (p *probe) connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = cmp.Or(unix.Connect(fd, p.address), unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), p.add(fd))
	c := &probed{fd: fd, body: -1}
	p.conns[int32(fd)] = c
	p.free = append(p.free, c)
	return err
}

// load sends n requests when they are due and waits for their answers.
func (p *probe) load(rate, n int) error {
	gap := time.Second / time.Duration(rate)
	begin := time.Now() // before the timer starts, so that it never fires just before a request is due
	timer, err := p.every(gap)
	if err != nil {
		return err
	}
	p.record = begin.Add(probeWarm)
	end := begin.Add(time.Duration(n)*gap + probeGrace)
	for p.answered+p.result.Errors < n && time.Now().Before(end) {
		if err := p.turn(timer); err != nil {
			return err
		}
		for now := time.Now(); p.result.Requests < n; p.result.Requests++ {
			due := begin.Add(time.Duration(p.result.Requests) * gap)
			if now.Before(due) {
				break
			}
			p.waiting = append(p.waiting, due)
		}
		if err := p.send(); err != nil {
			return err
		}
	}
	p.result.Errors = n - p.answered
	return nil
}

// turn waits for what happens next and deals with it.
func (p *probe) turn(timer int) error {
	events, err := p.wait()
	for _, e := range events {
		if int(e.Fd) == timer {
			_, _ = read(timer, p.buf)
		} else if c := p.conns[e.Fd]; c != nil && e.Events&^unix.EPOLLOUT != 0 {
			err = cmp.Or(err, p.receive(c))
		}
	}
	return err
}

// every makes a timer that fires at even intervals.
func (p *probe) every(gap time.Duration) (fd int, err error) {
	if fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return 0, err
	}
	each := unix.NsecToTimespec(gap.Nanoseconds())
	return fd, cmp.Or(unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: each, Value: each}, nil), p.add(fd))
}

// send sends what is due, on the connections that are free.
func (p *probe) send() error {
	for len(p.waiting) > 0 && len(p.free) > 0 {
		c, due := p.free[0], p.waiting[0]
		p.free, p.waiting = p.free[1:], p.waiting[1:]
		c.due = due
		if !due.Before(p.record) {
			p.late = append(p.late, microseconds(time.Since(due)))
		}
		if n, err := send(c.fd, p.request); err != 0 || n < len(p.request) {
			if err := p.lose(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive reads what has come for a connection.
func (p *probe) receive(c *probed) error {
	n, err := read(c.fd, p.buf)
	switch {
	case err == unix.EAGAIN:
		return nil
	case n <= 0 || c.due.IsZero():
		return p.lose(c)
	}
	switch whole, ok := c.take(p.buf[:n]); {
	case !ok:
		return p.lose(c)
	case whole:
		p.answered++
		if !c.due.Before(p.record) {
			p.latency = append(p.latency, microseconds(time.Since(c.due)))
		}
		c.due = time.Time{}
		p.free = append(p.free, c)
	}
	return nil
}

// take reads a piece of an answer: whether it is whole now, and whether it is right so far.
func (c *probed) take(in []byte) (whole, ok bool) {
	if c.body < 0 {
		c.head = append(c.head, in...)
		end := bytes.Index(c.head, []byte("\r\n\r\n"))
		if end < 0 {
			return false, len(c.head) <= maxHead
		}
		if !bytes.HasPrefix(c.head, []byte("HTTP/1.1 2")) {
			return false, false
		}
		c.body = contentLength(c.head[:end])
		in, c.head = c.head[end+4:], c.head[:0]
	}
	c.body -= len(in)
	if c.body != 0 {
		return false, c.body > 0
	}
	c.body = -1
	return true, true
}

// lose replaces a connection that is no good any more. The request on it counts as an error.
func (p *probe) lose(c *probed) error {
	if !c.due.IsZero() {
		p.result.Errors++
	}
	delete(p.conns, int32(c.fd))
	p.free = slices.DeleteFunc(p.free, func(f *probed) bool { return f == c })
	if err := unix.Close(c.fd); err != nil {
		return err
	}
	return p.connect()
}

// sum makes the result of what was recorded.
func (p *probe) sum() probeResult {
	slices.Sort(p.latency)
	slices.Sort(p.late)
	p.result.P50, p.result.P99, p.result.LateP99 = quantile(p.latency, 0.5), quantile(p.latency, 0.99), quantile(p.late, 0.99)
	return p.result
}

// quantile of sorted values; 0 when there is none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
