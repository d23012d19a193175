package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"retune/proxy/traffic"
)

// heldBody is a request's body as the transport sees it. It knows whether a byte was asked for, so that an
// untouched one can go to another backend; ReverseProxy closes the real one.
type heldBody struct {
	src     io.ReadCloser
	visit   *visit
	trailer http.Header // of the request that goes out
	state   atomic.Int32
}

const (
	bodyFresh int32 = iota
	bodyTouched
	bodyGivenBack // another attempt has it
)

var errBodyGone = errors.New("the request's body went to another backend")

// holdBody puts a heldBody in the place of the request's body; nil when there is none.
func holdBody(out *http.Request, v *visit) *heldBody {
	if out.Body == nil || out.Body == http.NoBody {
		return nil
	}
	h := &heldBody{src: out.Body, visit: v, trailer: out.Trailer}
	out.Body = h
	return h
}

func (h *heldBody) Read(p []byte) (int, error) {
	if !h.state.CompareAndSwap(bodyFresh, bodyTouched) && h.state.Load() == bodyGivenBack {
		return 0, errBodyGone
	}
	h.visit.due.Store(true)
	n, err := h.src.Read(p)
	switch {
	case err == io.EOF: // which comes with the last byte of a known length
		h.visit.whole.Store(true)
		for name := range h.trailer { // declared ones alone: the head is on its way
			h.trailer[name] = h.visit.request.Trailer[name]
		}
	case err != nil:
		h.visit.broken.CompareAndSwap(nil, &err)
	}
	h.visit.due.Store(false)
	if n > 0 {
		h.visit.progress()
	}
	return n, err
}

// Close leaves the real body open, for another attempt.
func (h *heldBody) Close() error { return nil }

// untouched takes the body back from the attempt that has it; false when that has begun to read it.
func (h *heldBody) untouched() bool {
	return h.state.CompareAndSwap(bodyFresh, bodyGivenBack)
}

// again is the request for a second attempt: the first one's transport may still hold the other.
func (h *heldBody) again(out *http.Request) *http.Request {
	u := *out.URL
	out = out.WithContext(out.Context())
	out.URL = &u
	if h != nil {
		out.Body = &heldBody{src: h.src, visit: h.visit, trailer: h.trailer}
	}
	return out
}

// bodyIsLate reports, when the time is over, whether it was the client's body that was waited for.
func (v *visit) bodyIsLate() bool { return v.due.Load() || v.broken.Load() != nil }

// progress gives an upload more time: the limit is on standing still.
func (v *visit) progress() {
	if !v.answered.Load() && v.timer.Stop() {
		v.timer.Reset(v.limit)
	}
}

// follow watches an answer's body, so that the attempt ends when it does. A connection that switched to another
// protocol is left as it is, and ends with the visit.
func follow(res *http.Response, v *visit) {
	if rw, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		v.answer = rw.Close
		return
	}
	b := &answerBody{src: res.Body, visit: v, stall: bodyStall}
	if res.ContentLength > 0 {
		x := v.exchange
		b.stall = v.limit
		b.notice = time.AfterFunc(stallTime, func() {
			if !v.due.Load() {
				x.seat.pool.stalled(x.seat.server, x.began)
			}
		})
	}
	res.Body, v.answer = b, b.Close
}

// answerBody is an answer on its way to the client.
type answerBody struct {
	src    io.ReadCloser
	visit  *visit
	stall  time.Duration // for how long the backend may pause
	notice *time.Timer   // tells the health checks of a pause; nil where pauses are usual
}

// Read bounds the backend's pauses; while the client takes its time the clock stands.
func (b *answerBody) Read(p []byte) (int, error) {
	v := b.visit
	v.timer.Reset(b.stall)
	if b.notice != nil {
		b.notice.Reset(stallTime)
	}
	n, err := b.src.Read(p)
	v.timer.Stop()
	if b.notice != nil {
		b.notice.Stop()
	}
	switch {
	case err == io.EOF:
		v.end(traffic.Success)
	case err != nil && gone(v.request.Context()), errors.Is(err, errTimeout) && v.bodyIsLate():
		v.end(traffic.Aborted)
	case err != nil:
		v.end(traffic.Failure)
	}
	return n, err
}

// Close before the end means that the client left: its side of the copy failed.
func (b *answerBody) Close() error {
	err := b.src.Close()
	if b.notice != nil {
		b.notice.Stop()
	}
	b.visit.end(traffic.Aborted)
	return err
}
