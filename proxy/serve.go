package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"retune/proxy/wire"
)

// ListenError says which listener could not be opened.
type ListenError struct {
	Flag string // "--listen" or "--admin"
	Err  error
}

// Error names the flag.
func (e *ListenError) Error() string { return fmt.Sprintf("%s: %v", e.Flag, e.Err) }

// Unwrap is the operating system's error.
func (e *ListenError) Unwrap() error { return e.Err }

func listen(given net.Listener, flag, address string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &ListenError{flag, err}
	}
	return ln, nil
}

// Run serves until ctx is done, then drains: /readyz fails, keep-alive ends, requests in flight finish within
// DrainTimeout, and what is left is cut. A *ListenError is a port that could not be had.
func (p *Proxy) Run(ctx context.Context) error {
	front, err := listen(p.config.TrafficListener, "--listen", p.config.Listen)
	if err != nil {
		return err
	}
	back, err := listen(p.config.AdminListener, "--admin", p.config.Admin)
	if err != nil {
		_ = front.Close()
		return err
	}
	p.log.Info("serving", "listen", front.Addr().String(), "admin", back.Addr().String(), "boot_id", p.boot)
	// What serves goes on while it drains; the loops beside it as well, so that health still counts.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, group := errgroup.WithContext(serving)
	traffic, admin := p.trafficServer(group), p.adminServer(group)
	fast, lane := p.newEngine(front)
	full := front // what the full lane's connections come from
	if p.cert != nil {
		s := newSecure(front, p.cert.config(), p.config.HeadTimeout, p.log)
		full = s
		g.Go(s.serve)
		g.Go(func() error { p.cert.watch(group); return nil })
	}
	if fast != nil {
		full = lane.handover
		g.Go(func() error { return fast.serve(front.(*net.TCPListener)) })
	}
	g.Go(func() error {
		return serve(traffic, wire.NewListener(full, wire.Limits{Head: maxHead, HeadTime: p.config.HeadTimeout, HTTP2: p.config.HTTP2}))
	})
	g.Go(func() error { return serve(admin, back) })
	g.Go(func() error { p.control.run(group); return nil })
	g.Go(func() error { p.pool.run(group); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-group.Done():
		}
		p.drain(fast, traffic)
		stop()
		return admin.Close()
	})
	err = g.Wait()
	p.idle()
	return err
}

func serve(s *http.Server, ln net.Listener) error {
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	return nil
}

// drain lets the requests in flight finish, tunnels too, and cuts what is left when the time is over.
func (p *Proxy) drain(fast engine, s *http.Server) {
	p.draining.Store(true)
	p.log.Info("draining", "in_flight", p.pool.inFlight(), "at_most", p.config.DrainTimeout.String())
	bounded, cancel := context.WithTimeout(context.Background(), p.config.DrainTimeout)
	defer cancel()
	var err error
	if fast != nil {
		err = fast.drain(bounded)
	}
	err = errors.Join(err, s.Shutdown(bounded))
	for err == nil && p.pool.inFlight() > 0 { // Shutdown does not wait for connections that switched protocols
		select {
		case <-bounded.Done():
			err = bounded.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		p.log.Warn("requests were cut off at the end of the drain", "in_flight", p.pool.inFlight())
		_ = s.Close()
	}
	if fast != nil {
		fast.close()
	}
}

const (
	maxHead     = 64 << 10         // bytes of a head, of requests and answers
	headTime    = 10 * time.Second // from a connection to its first head
	idleTime    = 75 * time.Second // of a client's connection between requests
	adminBodies = 256 << 10        // bytes of an admin request's body, at most
)

func (p *Proxy) trafficServer(ctx context.Context) *http.Server {
	s := p.server(ctx, wire.Handler(p.forward, p.refuse))
	s.ConnContext = wire.ConnContext
	s.ReadHeaderTimeout = 0 // the screen's, which says 408
	s.IdleTimeout = p.config.IdleTimeout
	s.DisableGeneralOptionsHandler = true // "OPTIONS *" is for the backend to answer
	s.Protocols.SetHTTP2(p.cert != nil)
	s.Protocols.SetUnencryptedHTTP2(p.config.HTTP2)
	s.HTTP2 = &http.HTTP2Config{WriteByteTimeout: idleTime} // HTTP/1.1 has its bound from the screen
	return s
}

func (p *Proxy) adminServer(ctx context.Context) *http.Server {
	s := p.server(ctx, newAdmin(p))
	s.ReadTimeout = 2 * time.Minute // longer than a profile takes
	return s
}

// server has the bounds that both listeners share. Its requests end with ctx.
func (p *Proxy) server(ctx context.Context, h http.Handler) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ErrorLog:    slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	return s
}
