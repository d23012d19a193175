package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

const (
	dialTime = 3 * time.Second
	// upstreamIdle is how long a connection to a backend is kept unused: shorter than the 5 s after which
	// common servers close theirs, since a request sent into a closing connection is lost (PA-16).
	upstreamIdle = 4 * time.Second
	// bodyStall is how long a backend may pause within an answer's body whose length it did not announce: that may be a
	// stream of events. Where it did, the request timeout holds, and a pause of stallTime counts against the backend, unless
	// more of the request is waited for.
	bodyStall = time.Minute
	stallTime = time.Second
	// bodyLinger is how long a client may go on with a body that has been answered.
	bodyLinger = 500 * time.Millisecond
	copyBuffer = 32 << 10
)

// Errors of the proxy's own; errorAnswers says what the client is told.
var (
	errNoBackend = errors.New("no backend is available")
	errTimeout   = errors.New("the backend took too long")
	errLost      = fmt.Errorf("%w: it gives no sign of life", errTimeout)
)

// visit is one client request on its way through the proxy.
type visit struct {
	origin
	key     uint64
	request *http.Request
	timer   *time.Timer // cancels the request when its backend makes no progress
	limit   time.Duration

	exchange exchange              // the attempt under way, or the last one
	open     bool                  // it has not ended
	answer   func() error          // closes its answer
	failed   bool                  // its answer is a failure: 5xx, or none that can be passed on
	answered atomic.Bool           // an answer's head has come
	due      atomic.Bool           // more of the client's body is waited for
	whole    atomic.Bool           // it has come to its end
	broken   atomic.Pointer[error] // it broke off, with this: nobody else is to blame
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit { return ctx.Value(visitKey{}).(*visit) }

// end ends the attempt under way, once.
func (v *visit) end(o traffic.Outcome) {
	if !v.open {
		return
	}
	v.open = false
	if v.failed && o == traffic.Success {
		o = traffic.Failure
	}
	v.exchange.end(balance.Now(), o)
}

// leave ends what is still open: a tunnel, or an answer that switched to a protocol which nobody asked for;
// ReverseProxy does not close that.
func (v *visit) leave() {
	v.timer.Stop()
	if v.open && v.answer != nil {
		_ = v.answer()
	}
	v.end(traffic.Success)
}

// gone reports whether the client has given up.
func gone(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout)
}

// newForwarder is the handler of the traffic listener, and what closes its idle connections.
func newForwarder(p *Proxy) (http.Handler, func()) {
	transport := &http.Transport{
		DialContext:            screened(newDialer().DialContext),
		DialTLSContext:         screened((&tls.Dialer{NetDialer: newDialer(), Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext),
		MaxIdleConns:           0, // no limit over all; see PA-17
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        upstreamIdle,
		DisableCompression:     true,
		ExpectContinueTimeout:  time.Second,
		ForceAttemptHTTP2:      false,
		MaxResponseHeaderBytes: maxHead,
		ReadBufferSize:         4 << 10,
		WriteBufferSize:        4 << 10,
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     &balancer{p.choose, transport},
		BufferPool:    newBuffers(),
		FlushInterval: -1, // bytes go on as they come
		ErrorLog:      slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		ErrorHandler:  p.answerError,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.answerOwn(w, http.StatusMethodNotAllowed, "connect")
			return
		}
		if fault := wire.CheckTarget(r.Method, r.RequestURI, r.Host); r.ProtoMajor > 1 && fault != nil {
			p.refuse(w, r, fault)
			return
		}
		p.visit(proxy, w, r)
	}), transport.CloseIdleConnections
}

// visit forwards one request, bounded in time.
func (p *Proxy) visit(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	v := &visit{origin: originOf(r, p.config.Trusted), request: r, limit: p.config.RequestTimeout}
	v.key = balance.Key(v.client)
	ctx, cancel := context.WithCancelCause(wire.Asking(r.Context(), r.Method))
	defer cancel(nil)
	rc := http.NewResponseController(w)
	v.timer = time.AfterFunc(v.limit, func() {
		cancel(errTimeout)
		_ = rc.SetReadDeadline(time.Now()) // the transport waits for whoever reads the client's body
	})
	defer v.leave()
	answer := &answerWriter{ResponseWriter: w, visit: v}
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// Else net/http would hold an answer back until it has read the body, or has lost it.
		_ = rc.EnableFullDuplex()
		defer wire.Hurry(ctx, bodyLinger)
	}
	proxy.ServeHTTP(answer, r.WithContext(context.WithValue(ctx, visitKey{}, v)))
	answer.whole() // else it has panicked
}

// rewrite makes the request that goes to the backend; which backend, the balancer says.
func rewrite(r *httputil.ProxyRequest) {
	v := visitOf(r.In.Context())
	keepTarget(r.Out.URL, r.In)
	setForwarded(r.Out.Header, r.In, v.origin)
	if strings.Contains(strings.ToLower(strings.Join(r.Out.Header["Upgrade"], ",")), "h2c") {
		// HTTP/2 inside a tunnel would take its requests past everything the proxy checks.
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			r.Out.Header.Del(name)
		}
	}
}

// keepTarget lets the target go on byte by byte: what the proxy would write otherwise, or can't parse, is the
// backend's to read. Only behind "//" net/http can't be kept from escaping odd bytes.
func keepTarget(out *url.URL, in *http.Request) {
	out.RawQuery = in.URL.RawQuery
	switch path, _, _ := strings.Cut(in.RequestURI, "?"); {
	case strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//"):
		out.Opaque = path
	case in.Method == http.MethodOptions && in.URL.Path == "" && in.URL.RawQuery == "":
		out.Opaque = "*" // of a host as a whole, RFC 9112 §3.2.4
	}
}

// errorAnswers maps an error to the status and the cause that the client is told; the first that fits wins.
var errorAnswers = []struct {
	is     func(error) bool
	status int
	cause  string
}{
	{func(err error) bool { return errors.Is(err, errNoBackend) }, http.StatusServiceUnavailable, "no_backend"},
	{func(err error) bool { return errors.Is(err, errTimeout) }, http.StatusGatewayTimeout, "timeout"},
	{neverSent, http.StatusBadGateway, "connect"},
	{func(error) bool { return true }, http.StatusBadGateway, "broken_answer"},
}

// answerError answers for a backend that did not.
func (p *Proxy) answerError(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	v := visitOf(ctx)
	v.failed = true
	if fault := v.bodyFault(ctx); fault != nil {
		p.refuse(w, r, fault)
		return
	}
	if gone(ctx) || v.broken.Load() != nil {
		p.meters.own("client_gone").Inc()
		panic(http.ErrAbortHandler) // nobody is left to answer
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	for _, a := range errorAnswers {
		if a.is(err) {
			p.log.Debug("a request failed", "cause", a.cause, "method", r.Method, "path", r.URL.Path, "error", err)
			p.answerOwn(w, a.status, a.cause)
			return
		}
	}
}

// bodyFault is what a client is told whose body could not be read; nil when it could, or when the client left in
// the middle of it. A fault of what is pipelined behind it has its own answer.
func (v *visit) bodyFault(ctx context.Context) *wire.Fault {
	broken := v.broken.Load()
	if broken == nil {
		return nil
	}
	var network net.Error
	switch fault := wire.FaultOf(ctx); {
	case fault != nil: // net/http ends the context with the read that failed
		return fault
	case errors.Is(context.Cause(ctx), errTimeout):
		return wire.BodyTime
	case gone(ctx), errors.Is(*broken, io.ErrUnexpectedEOF), errors.As(*broken, &network):
		return nil
	}
	return &wire.Fault{Status: http.StatusBadRequest, Cause: "malformed body"}
}

// refuse answers a request that the wire's screen did not let through.
func (p *Proxy) refuse(w http.ResponseWriter, _ *http.Request, f *wire.Fault) {
	w.Header().Set("Connection", "close")
	p.log.Debug("a request was refused", "status", f.Status, "cause", f.Cause)
	p.answerOwn(w, f.Status, "malformed_request")
}

// answerOwn writes an answer of the proxy itself; X-Retune-Error tells it from a backend's.
func (p *Proxy) answerOwn(w http.ResponseWriter, status int, cause string) {
	p.meters.own(cause).Inc()
	h := w.Header()
	h.Set("X-Retune-Error", cause)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%d %s (%s)\n", status, http.StatusText(status), cause)
}

// buffers lends ReverseProxy its copy buffers.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([copyBuffer]byte) }}}
}

// Get lends a buffer.
func (b *buffers) Get() []byte { return b.pool.Get().(*[copyBuffer]byte)[:] }

// Put takes it back.
func (b *buffers) Put(buf []byte) { b.pool.Put((*[copyBuffer]byte)(buf)) }
