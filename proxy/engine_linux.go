package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// newSystemEngine is the best engine for this system.
func newSystemEngine(l *lane) engine { return &epollEngine{lane: l, closed: make(chan struct{})} }

// epollEngine is an event loop per thread, and a goroutine that accepts connections and deals them to the loops.
type epollEngine struct {
	*lane
	closed chan struct{}
	end    sync.Once

	mu        sync.Mutex
	listening *os.File      // guarded by mu; nil before serve
	loops     []*loop       // guarded by mu until serve has made them
	ended     chan struct{} // guarded by mu; nil before serve
}

func (e *epollEngine) serve(ln *net.TCPListener) error {
	listening, err := duplicate(ln)
	_ = ln.Close()
	if err != nil {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	loops, err := e.makeLoops()
	if err != nil {
		_ = listening.Close()
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	ended := make(chan struct{})
	defer close(ended)
	e.mu.Lock()
	e.listening, e.loops, e.ended = listening, loops, ended
	e.mu.Unlock()
	var g errgroup.Group
	for _, l := range loops {
		g.Go(l.run)
	}
	g.Go(func() error {
		<-e.closed
		_ = listening.Close() // close may have come before there was one
		for _, l := range loops {
			l.tell(note{fd: -1, stop: true})
		}
		return nil
	})
	err = e.accept(listening, loops)
	if err != nil {
		e.end.Do(func() { close(e.closed) })
	}
	if err = errors.Join(err, g.Wait()); err != nil {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	return nil
}

func (e *epollEngine) makeLoops() ([]*loop, error) {
	loops := make([]*loop, runtime.GOMAXPROCS(0))
	for i := range loops {
		var err error
		if loops[i], err = newLoop(e.lane); err != nil {
			for _, l := range loops[:i] {
				l.shut()
			}
			return nil, err
		}
	}
	return loops, nil
}

// duplicate is the listener's socket as a file, which can be waited for; a net.Listener can't be.
func duplicate(ln *net.TCPListener) (*os.File, error) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dup := -1, error(nil)
	err = raw.Control(func(d uintptr) {
		// What is accepted inherits these.
		for _, o := range []struct{ level, option, value int }{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		} {
			_ = unix.SetsockoptInt(int(d), o.level, o.option, o.value) // slower without, not wrong
		}
		fd, dup = unix.FcntlInt(d, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, dup); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// accept deals connections to the loops until the listener closes.
func (e *epollEngine) accept(listening *os.File, loops []*loop) error {
	raw, err := listening.SyscallConn()
	if err != nil {
		return err
	}
	for closed := false; !closed; {
		var refused error
		closed = raw.Read(func(fd uintptr) bool {
			refused = acceptAll(int(fd), loops)
			return refused != nil
		}) != nil
		if refused == nil {
			continue
		}
		e.log.Warn("a connection can't be accepted", "error", refused)
		select {
		case <-time.After(50 * time.Millisecond): // until a descriptor is free again
		case <-e.closed:
			closed = true
		}
	}
	return nil
}

// acceptAll deals what is there, each to the loop that has the fewest. Its error is the system's that has no room.
func acceptAll(listening int, loops []*loop) error {
	for {
		conn, sa, err := unix.Accept4(listening, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			l := fewest(loops)
			l.clients.Add(1)
			l.tell(note{fd: conn, addr: addressOf(sa)})
		case errors.Is(err, unix.EAGAIN):
			return nil
		case !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

func fewest(loops []*loop) *loop {
	least := loops[0]
	for _, l := range loops[1:] {
		if l.clients.Load() < least.clients.Load() {
			least = l
		}
	}
	return least
}

func (e *epollEngine) drain(ctx context.Context) error {
	e.mu.Lock()
	listening, loops := e.listening, e.loops
	e.mu.Unlock()
	if listening == nil {
		return nil
	}
	_ = listening.Close()
	for _, l := range loops {
		l.tell(note{fd: -1, drain: true})
	}
	for busy(loops) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func busy(loops []*loop) bool {
	for _, l := range loops {
		if l.clients.Load() > 0 {
			return true
		}
	}
	return false
}

func (e *epollEngine) close() {
	e.end.Do(func() { close(e.closed) })
	e.mu.Lock()
	listening, ended := e.listening, e.ended
	e.mu.Unlock()
	if listening == nil {
		return
	}
	_ = listening.Close()
	<-ended
}
