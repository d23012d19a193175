// Package wire is HTTP/1.1 as this proxy reads it: strictly, so that no head and no framing goes through that two
// parsers could read in two ways. It knows nothing of balancing.
//
//	field, request, answer   heads, line by line
//	chunks, body             where a message ends
//	wire, conn               the screen in front of net/http, which reads too much
//
// net/http lets Transfer-Encoding win over Content-Length and keeps the connection open, takes a bare line
// feed for a line end, and unfolds folded headers: each a way to smuggle a second request past a proxy. A
// Listener wraps every connection in a Conn, which walks its byte stream and always knows where the next head
// begins:
//
//	       head whole and sound          body over
//	head ──────────────────────▶ body ──────────────▶ head   (or: held, after Upgrade or CONNECT)
//	 │                             │                                  │ the server answered 101
//	 ▼ fault                       ▼ fault                            ▼
//	refused                       Read returns the *Fault           opaque
//
// A head is handed on only when it is whole. One that is refused is replaced by a stand-in request, so that the
// server answers it in its turn, after the answers to what was pipelined before it; Handler knows the stand-in
// and writes the refusal. HTTP/2 passes through when it is enabled.
package wire

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Limits bounds what a client may send before it is served.
type Limits struct {
	Head     int           // bytes of one request head (64 KiB)
	HeadTime time.Duration // from a head's first byte to its last (10 s)
	HTTP2    bool          // HTTP/2 without TLS, by prior knowledge, may pass
}

// NewListener wraps every connection that ln accepts in a Conn, but for TLS connections that have agreed on HTTP/2.
// Zero limits mean their defaults.
func NewListener(ln net.Listener, l Limits) net.Listener {
	if l.Head == 0 {
		l.Head = 64 << 10
	}
	if l.HeadTime == 0 {
		l.HeadTime = 10 * time.Second
	}
	return &listener{ln, l}
}

type listener struct {
	net.Listener
	limits Limits
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		return c, nil // net/http finds HTTP/2 by the type
	}
	return newConn(c, &l.limits), nil
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext: it lets Handler and FaultOf find a request's connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Secure reports whether a request came over TLS. net/http doesn't see it behind the screen.
func Secure(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*Conn)
	if !ok {
		_, ok = ctx.Value(connKey{}).(*tls.Conn)
		return ok
	}
	_, ok = c.Conn.(*tls.Conn)
	return ok
}

// FaultOf is the fault for which a request's connection was refused; nil while there is none. A handler that
// fails to read a body asks it whether the client broke the framing.
func FaultOf(ctx context.Context) *Fault {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c.fault.Load()
	}
	return nil
}

// Hurry bounds how long the body of a request that has been answered may go on coming: net/http would read on for a
// client that waits for 100 Continue, and never sends it.
func Hurry(ctx context.Context, d time.Duration) {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		c.hurry(d)
	}
}

// SetReset says whether a request's connection ends with a reset, whoever closes it. Over TLS it can't.
func SetReset(ctx context.Context, on bool) {
	c, _ := ctx.Value(connKey{}).(*Conn)
	if c == nil {
		return
	}
	if tcp, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		seconds := -1
		if on {
			seconds = 0
		}
		_ = tcp.SetLinger(seconds) // fails where the connection has ended
	}
}

// standInPath can't be guessed and is never sent anywhere, so only a stand-in asks for it.
var (
	standInPath = "/" + rand.Text()
	standIn     = []byte("GET " + standInPath + " HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
)

// Handler hands every sound request to next, and a refused one to refuse, whose answer is the last on that
// connection. The connection of an Upgrade or a CONNECT closes unless it is answered with 101.
func Handler(next http.Handler, refuse func(http.ResponseWriter, *http.Request, *Fault)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.RequestURI == standInPath:
			w.Header().Set("Connection", "close")
			refuse(w, r, FaultOf(r.Context()))
		case r.ProtoMajor == 1 && (r.Method == http.MethodConnect || r.Header["Upgrade"] != nil):
			next.ServeHTTP(&closing{w}, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// closing is the answer to a request that asked for another protocol: the connection ends with it, since what
// the client sends after its request may be either protocol. A 101 goes out past it, on the hijacked connection.
type closing struct{ http.ResponseWriter }

func (c *closing) WriteHeader(status int) {
	if status >= 200 {
		c.Header().Set("Connection", "close")
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *closing) Write(b []byte) (int, error) {
	c.Header().Set("Connection", "close") // changes nothing once the head is out
	return c.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the rest of the writer.
func (c *closing) Unwrap() http.ResponseWriter { return c.ResponseWriter }
