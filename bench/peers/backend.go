//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// The bodies that a backend answers with: large ones where the path begins with largePath, small ones elsewhere.
const (
	smallBody = 1 << 10
	largeBody = 64 << 10
	largePath = "/64k"
)

// maxHead is the longest request head that a backend reads.
const maxHead = 32 << 10

// backends are the servers behind the contenders: HTTP/1.1 with keep-alive on any number of addresses, the least that
// a load balancer can forward to. They read a request's body by its Content-Length and answer at once, always the same.
type backends struct {
	*poller
	listeners map[int32]bool
	conns     map[int32]*served
	buf       []byte
	small     []byte
	large     []byte
}

// served is a connection from a contender.
type served struct {
	fd      int
	head    []byte // of a request whose head has not arrived to its end
	body    int    // bytes of the request's body still to come
	answer  []byte // to the request whose body is still to come
	pending []byte // of answers, for when the socket takes more
}

// serveBackends serves on all addresses until the process ends.
func serveBackends(addresses []string) error {
	p, err := newPoller()
	if err != nil {
		return err
	}
	b := &backends{
		poller: p, listeners: map[int32]bool{}, conns: map[int32]*served{}, buf: make([]byte, 64<<10),
		small: canned(smallBody), large: canned(largeBody),
	}
	for _, a := range addresses {
		if err := b.listen(a); err != nil {
			return fmt.Errorf("backend on %s: %w", a, err)
		}
	}
	for {
		events, err := b.wait()
		if err != nil {
			return err
		}
		for _, e := range events {
			if b.listeners[e.Fd] {
				b.accept(int(e.Fd))
			} else if c := b.conns[e.Fd]; c != nil && !b.turn(c, e.Events) {
				delete(b.conns, e.Fd)
				_ = unix.Close(c.fd)
			}
		}
	}
}

// canned is a whole answer.
func canned(body int) []byte {
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: b\r\nDate: Mon, 30 Nov 2026 06:00:00 GMT\r\n"+
		"Content-Type: application/octet-stream\r\nCache-Control: no-cache\r\nContent-Length: %d\r\n\r\n", body)
	return append([]byte(head), bytes.Repeat([]byte("x"), body)...)
}

func (b *backends) listen(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	b.listeners[int32(fd)] = true
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}),
		unix.Listen(fd, 4096),
		b.add(fd))
}

// accept takes all connections that wait.
func (b *backends) accept(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 256<<10)
		b.conns[int32(fd)] = &served{fd: fd}
		if err := b.add(fd); err != nil {
			delete(b.conns, int32(fd))
			_ = unix.Close(fd)
		}
	}
}

// turn does all that a connection has to do after an event; false when it is over.
func (b *backends) turn(c *served, events uint32) bool {
	if !c.flush() {
		return false
	}
	for events&^unix.EPOLLOUT != 0 {
		n, err := read(c.fd, b.buf)
		if n <= 0 {
			return err == unix.EAGAIN
		}
		if !b.take(c, b.buf[:n]) {
			return false
		}
		if n < len(b.buf) && events&unix.EPOLLRDHUP == 0 { // edge-triggered: what comes later is another event
			break
		}
	}
	return true
}

// take reads requests, pipelined ones too, and answers each once it is whole.
func (b *backends) take(c *served, in []byte) bool {
	if len(c.head) > 0 {
		in = append(c.head, in...)
		c.head = nil
	}
	for len(in) > 0 || c.answer != nil {
		if c.answer == nil {
			end := bytes.Index(in, []byte("\r\n\r\n"))
			if end < 0 {
				c.head = append([]byte(nil), in...)
				return len(in) <= maxHead
			}
			c.answer, c.body = b.small, contentLength(in[:end])
			if bytes.HasPrefix(in[bytes.IndexByte(in, ' ')+1:], []byte(largePath)) {
				c.answer = b.large
			}
			in = in[end+4:]
		}
		skip := min(c.body, len(in))
		in, c.body = in[skip:], c.body-skip
		if c.body > 0 {
			return true
		}
		if !c.send() {
			return false
		}
	}
	return true
}

// contentLength is what a head says of its body; 0 when it says nothing.
func contentLength(head []byte) int {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		const name = "content-length:"
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
			return max(n, 0)
		}
	}
	return 0
}

// send sends the answer that is due, after those that still wait.
func (c *served) send() bool {
	if len(c.pending) > 0 {
		c.pending = append(c.pending[:len(c.pending):len(c.pending)], c.answer...)
	} else {
		c.pending = c.answer
	}
	c.answer = nil
	return c.flush()
}

// flush sends what is pending, as far as the socket takes it; false when the peer is gone.
func (c *served) flush() bool {
	for len(c.pending) > 0 {
		n, err := send(c.fd, c.pending)
		if err != 0 {
			return err == unix.EAGAIN
		}
		c.pending = c.pending[n:]
	}
	return true
}
