package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

func newDialer() *net.Dialer { return &net.Dialer{Timeout: dialTime} }

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// screened puts the connections that dial makes behind the screen of answers.
func screened(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wire.NewBackend(c, maxHead), nil
	}
}

// balancer is the transport behind ReverseProxy: it picks a backend for each request, and once another one when
// the first gave no answer and a second try can't do harm.
type balancer struct {
	choose    *chooser
	transport http.RoundTripper
}

// RoundTrip sends a request to a backend and returns its answer, whose end ends the attempt.
func (b *balancer) RoundTrip(out *http.Request) (*http.Response, error) {
	v := visitOf(out.Context())
	now := balance.Now()
	s := b.choose.first(b.choose.pool.route.Load(), v.key, now)
	if s == nil {
		return nil, errNoBackend
	}
	body := holdBody(out, v)
	res, err := b.attempt(out, v, s, now)
	if err == nil {
		return res, nil
	}
	o := v.blame(out.Context())
	if o != traffic.Failure || !mayRetry(out, body, err) {
		v.end(o)
		return nil, err
	}
	next := b.choose.next(s, false)
	if next == nil {
		v.end(o)
		return nil, err
	}
	v.end(traffic.Retried)
	out = body.again(out)
	if res, err = b.attempt(out, v, next, balance.Now()); err != nil {
		v.end(v.blame(out.Context()))
	}
	return res, err
}

// attempt sends the request to one backend. On an error the caller ends it.
func (b *balancer) attempt(out *http.Request, v *visit, s *seat, now int64) (*http.Response, error) {
	v.exchange, v.open = s.begin(now), true
	out.URL.Scheme, out.URL.Host = s.URL().Scheme, s.URL().Host
	res, err := b.roundTrip(out, s)
	if err != nil {
		return nil, err
	}
	v.exchange.head = balance.Now()
	v.exchange.flow(v.exchange.head)
	v.answered.Store(true)
	v.timer.Stop()
	v.failed = res.StatusCode >= 500
	delete(res.Header, "X-Retune-Error") // the proxy's alone to say
	follow(res, v)
	return res, nil
}

// roundTrip waits for the answer's head. A request that can be sent again waits no longer than its backend lives.
func (b *balancer) roundTrip(out *http.Request, s *seat) (*http.Response, error) {
	if out.Body != nil && out.Body != http.NoBody || !idempotent(out.Method) {
		return b.transport.RoundTrip(out)
	}
	ctx, abandon := context.WithCancelCause(out.Context())
	stop := s.onceLost(func() { abandon(errLost) })
	res, err := b.transport.RoundTrip(out.WithContext(ctx))
	if stop() {
		return res, err
	}
	if err == nil { // at the last moment; its body is cut
		_ = res.Body.Close()
	}
	return nil, errLost
}

// blame says how an attempt without an answer counts: the backend's failure, unless the client left or its body
// broke off.
func (v *visit) blame(ctx context.Context) traffic.Outcome {
	if gone(ctx) || v.broken.Load() != nil {
		return traffic.Aborted
	}
	return traffic.Failure
}

// mayRetry reports whether a second attempt can't do what the client asked for twice: nothing was sent, or the
// method is idempotent; and the body, if there is one, has not been touched.
func mayRetry(out *http.Request, body *heldBody, err error) bool {
	if out.Context().Err() != nil {
		return false
	}
	return (neverSent(err) || idempotent(out.Method)) && (body == nil || body.untouched())
}

// neverSent reports whether the error shows that no byte of the request reached the backend.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// idempotent is RFC 9110 §9.2.2.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// A retry costs five requests' worth of credit: at most 20% extra, plus the floor that a quiet proxy starts with. What
// requests of the last retrySpan earned can be saved up: a backend that is lost leaves all at once what waited for it.
const (
	retryCost  = 5
	retryFloor = 10 * retryCost
	retryMost  = 200 * retryCost // saved up, at least
	retrySpan  = 10 * time.Second
)

// budget bounds retries, so that a failing backend's load is not doubled on the others. Each request earns one
// credit, a retry spends retryCost.
type budget struct {
	credit, most atomic.Int64

	ended, recent int64 // requests, in all and in the last retrySpan or so; follow's alone
}

func newBudget() *budget {
	b := &budget{}
	b.credit.Store(retryFloor)
	b.most.Store(retryMost)
	return b
}

func (b *budget) earn() {
	if b.credit.Load() < b.most.Load() {
		b.credit.Add(1)
	}
}

// follow is told once a tick how many requests have ended.
func (b *budget) follow(ended int64) {
	b.recent += max(0, ended-b.ended) - b.recent/int64(retrySpan/tickTime)
	b.ended = ended
	b.most.Store(max(retryMost, b.recent))
}

func (b *budget) spend() bool {
	if b.credit.Add(-retryCost) >= 0 {
		return true
	}
	b.credit.Add(retryCost)
	return false
}
