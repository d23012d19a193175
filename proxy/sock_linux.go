package proxy

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sock is one connection on a loop: a client's, or one to a backend. Its loop alone touches it. An idle one holds no
// buffer.
type sock struct {
	fd       int // -1: a connection to a backend that is being dialed by name
	upstream bool

	// readable: there may be something to read. Registration is edge-triggered, so it stays set until a read says
	// that there is nothing more. eof: the other end sends nothing after that.
	readable, eof bool
	connecting    bool // to a backend
	dead          bool // closed at the end of the batch
	pumping       bool // in pump
	queued        bool // in loop.again
	closing       closing
	resets        bool // see setReset

	work    *work
	unread  []byte // read, but not used yet
	scanned int    // bytes of unread that hold no end of a head
	pending []byte // to be written when the socket takes it
	written int    // bytes of pending that it has taken
	held    int    // bytes that the kernel held for a client when a timer looked

	timers     *timers // the list that it stands in; nil: none
	prev, next *sock
	due        int64

	peer peer // of a client

	// Of a connection to a backend:
	server       *server
	idle         bool // in the stack of those that wait for the next request
	above, below *sock
}

// closing is how far the end of a client's connection is.
type closing uint8

const (
	open      closing = iota
	flushing          // what is pending goes out, then it closes
	flushing2         // what is pending goes out, then it lingers
	lingering         // what still comes is thrown away for a moment, so that it does not reset the connection
)

// waiting reports whether the socket has to take something before more can be written.
func (s *sock) waiting() bool { return len(s.pending) > 0 || s.connecting }

// The calls below never block, so the scheduler need not be told of them.

// got is how a read ended.
type got uint8

const (
	gotBytes got = iota
	gotNothing
	gotEnd
	gotError
)

// read reads into b, and keeps readable true to the socket.
func (s *sock) read(b []byte) (int, got) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
		switch {
		case e == unix.EINTR:
			continue
		case e == unix.EAGAIN:
			s.readable = false
			return 0, gotNothing
		case e != 0:
			return 0, gotError
		case n == 0:
			return 0, gotEnd
		}
		if int(n) < len(b) && !s.eof {
			s.readable = false // a stream that gave less than it could has nothing more
		}
		return int(n), gotBytes
	}
}

// write writes what the socket takes of b; ok is false when the connection is broken.
func (s *sock) write(b []byte) (n int, ok bool) {
	for n < len(b) {
		p := b[n:]
		m, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			n += int(m)
		case unix.EINTR:
		case unix.EAGAIN:
			return n, true
		default:
			return n, false
		}
	}
	return n, true
}

// setReset says whether the connection ends with a reset, whoever closes it, be it the system after a crash. It does as
// long as an orderly end would make a part of an answer look like all of it.
func (s *sock) setReset(on bool) {
	s.resets = on
	var l unix.Linger
	if on {
		l.Onoff = 1
	}
	_ = unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &l)
}

// alive reports whether an idle connection is still open and silent.
func (s *sock) alive() bool {
	var b [1]byte
	_, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	s.readable = e != unix.EAGAIN
	return !s.readable
}

func epollWait(ep uintptr, events []unix.EpollEvent) int {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, ep, uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if e != 0 {
		return 0
	}
	return int(n)
}

// everything is what a socket is registered for, once: nothing is ever changed about it.
const everything = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

func register(ep, fd int) error {
	return unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: everything, Fd: int32(fd)})
}

// connect begins a connection. pending: it is not there yet.
func connect(to netip.AddrPort) (fd int, pending bool, err error) {
	family := unix.AF_INET
	var sa unix.Sockaddr
	if a := to.Addr(); a.Is4() {
		sa = &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	} else {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: a.As16()}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, false, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // slower without, not wrong
	switch err = unix.Connect(fd, sa); err {
	case nil:
		return fd, false, nil
	case unix.EINPROGRESS:
		return fd, true, nil
	}
	_ = unix.Close(fd)
	return -1, false, err
}

// addressOf is the client's address of an accepted connection.
func addressOf(sa unix.Sockaddr) netip.Addr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.Addr{}
}

// held is how many bytes that were sent the other end of a connection has not taken yet; 0 when that can't be told.
func held(fd uintptr) int {
	n, _ := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
	return n
}
