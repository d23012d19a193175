package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateLook is how often the certificate's files are looked at.
const certificateLook = 5 * time.Second

// certificate is the traffic listener's key pair, from two PEM files. When they change it is read again, and counts
// for the connections that come after.
type certificate struct {
	cert, key string // the files
	log       *slog.Logger
	pair      atomic.Pointer[tls.Certificate]
	seen      string // what the files looked like when they were last read; belongs to watch
}

// openCertificate reads the pair. Its error says what is wrong with which file.
func openCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log, seen: look(cert, key)}
	return c, c.load()
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if file := new(os.PathError); errors.As(err, &file) {
		return fmt.Errorf("reading the TLS certificate: %w", err)
	}
	if err != nil {
		return fmt.Errorf("--tls-cert %s with --tls-key %s: %w; want a PEM certificate with its chain, and the PEM private key that belongs to it", c.cert, c.key, err)
	}
	if now := time.Now(); now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		c.log.Warn("the TLS certificate is not valid today", "file", c.cert, "from", pair.Leaf.NotBefore, "until", pair.Leaf.NotAfter)
	}
	c.pair.Store(&pair)
	return nil
}

// look is what tells two states of the files apart: their contents, since a file that is replaced within one tick of the
// file system's clock has the size and the time of the one before. One that can't be read has a state too.
func look(files ...string) (state string) {
	for _, f := range files {
		b, err := os.ReadFile(f)
		state += fmt.Sprintf("%x %v;", sha256.Sum256(b), err == nil)
	}
	return state
}

// refresh reads the files again when they have changed. A pair that can't be used, as while only one of the files
// is new, is told, and changes nothing.
func (c *certificate) refresh() {
	state := look(c.cert, c.key)
	if state == c.seen {
		return
	}
	c.seen = state
	if err := c.load(); err != nil {
		c.log.Error("the new TLS certificate can't be used; the one before stays", "error", err)
		return
	}
	c.log.Info("the TLS certificate was read again", "file", c.cert, "until", c.pair.Load().Leaf.NotAfter)
}

// watch refreshes until ctx is done.
func (c *certificate) watch(ctx context.Context) {
	ticker := time.NewTicker(certificateLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.refresh()
		}
	}
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}

// secure is a listener of TLS connections that have shaken hands, so that the screen knows which of them speak
// HTTP/2. Handshakes run beside each other, each within the time of a head.
type secure struct {
	net.Listener
	config *tls.Config
	limit  time.Duration
	log    *slog.Logger

	conns   chan net.Conn
	open    context.Context // until Close
	end     context.CancelFunc
	shaking sync.WaitGroup
}

func newSecure(ln net.Listener, config *tls.Config, limit time.Duration, log *slog.Logger) *secure {
	s := &secure{Listener: ln, config: config, limit: limit, log: log, conns: make(chan net.Conn)}
	s.open, s.end = context.WithCancel(context.Background())
	return s
}

// serve takes connections until Close, and waits for the handshakes under way.
func (s *secure) serve() error {
	defer s.shaking.Wait()
	for s.open.Err() == nil {
		c, err := s.Listener.Accept()
		if err == nil {
			s.shaking.Go(func() { s.shake(c) })
		} else if s.open.Err() == nil { // too many open files, mostly: it passes
			s.log.Warn("a connection could not be taken", "error", err)
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

func (s *secure) shake(c net.Conn) {
	bounded, cancel := context.WithTimeout(s.open, s.limit)
	defer cancel()
	t := tls.Server(c, s.config)
	if err := t.HandshakeContext(bounded); err != nil {
		if plain := new(tls.RecordHeaderError); errors.As(err, plain) && plain.Conn != nil {
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\nX-Retune-Error: plain_http\r\n\r\nThis port speaks TLS: say https://\n")
		}
		_ = c.Close()
		return
	}
	select {
	case s.conns <- t:
	case <-s.open.Done():
		_ = c.Close()
	}
}

// Accept waits for a connection that has shaken hands.
func (s *secure) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.open.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept and serve, and breaks off handshakes.
func (s *secure) Close() error {
	s.end()
	return s.Listener.Close()
}
