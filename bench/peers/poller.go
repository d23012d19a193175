//go:build linux

package main

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is a thin epoll: the backends and the open-loop probe are one loop in one thread each, because they share a
// core with one another and whatever they cost comes off what is left for measuring.
type poller struct {
	fd     int
	events []unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd, events: make([]unix.EpollEvent, 512)}, nil
}

// add watches a non-blocking descriptor, edge-triggered: for reading, writing and the peer's end.
func (p *poller) add(fd int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&(1<<32-1), Fd: int32(fd)})
}

// wait returns what has happened, once something has. As in read and send, the thread enters the kernel without telling
// Go's scheduler, whose monitor would otherwise wake up every 20 µs to see whether it has come back: on a virtual machine
// that costs a third more CPU time.
func (p *poller) wait() ([]unix.EpollEvent, error) {
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p.events))),
			uintptr(len(p.events)), ^uintptr(0), 0, 0)
		switch err {
		case 0:
			return p.events[:n], nil
		case unix.EINTR:
		default:
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
}

// read and send never wait: their descriptors are non-blocking.
func read(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), err
}

func send(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), err
}
