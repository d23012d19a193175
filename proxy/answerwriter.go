package proxy

import (
	"maps"
	"net/http"
	"strings"

	"retune/proxy/wire"
)

// answerWriter is the client's side of the full lane. It does what RFC 9110 §15.2 and RFC 9112 §9.6 ask for and
// net/http and ReverseProxy leave out: no type is guessed; no interim answer (1xx) goes to a client of HTTP/1.0, which
// would take it for the answer; none takes along what concerns the backend's connection alone; a client whose body was
// answered before its end is told that the connection ends; and a client of HTTP/1.0, which knows the end of an answer
// without a length by that of the connection, sees a reset where the answer is cut.
type answerWriter struct {
	http.ResponseWriter
	visit  *visit
	goesOn bool // see goOn
	resets bool // the connection ends with a reset, until the answer is whole
}

// WriteHeader writes the head of an interim answer or of the final one.
func (w *answerWriter) WriteHeader(status int) {
	r := w.visit.request
	if h := w.Header(); status >= 200 && h["Content-Type"] == nil {
		h["Content-Type"] = nil // so that net/http guesses none
	}
	switch {
	case status == http.StatusSwitchingProtocols:
	case status < 200 && !r.ProtoAtLeast(1, 1):
		return
	case status == http.StatusContinue && w.visit.expects():
		return // the transport reads the body now, and net/http says it
	case status < 200:
		dropHopByHop(w.Header())
		w.goOn()
	case !r.ProtoAtLeast(1, 1) && w.Header()["Content-Length"] == nil:
		w.resets = true
		wire.SetReset(r.Context(), true)
	case r.ContentLength != 0 && r.ProtoMajor == 1 && !w.visit.whole.Load():
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// goOn tells a client that waits for 100 Continue to go on, before it gets another interim answer. net/http would tell it
// on another goroutine, into the same buffer as what is written here.
func (w *answerWriter) goOn() {
	if w.goesOn || !w.visit.expects() {
		return
	}
	w.goesOn = true
	h := w.Header()
	others := maps.Clone(h)
	clear(h)
	w.ResponseWriter.WriteHeader(http.StatusContinue)
	maps.Copy(h, others)
}

// expects reports whether net/http says 100 Continue when the request's body is read for the first time.
func (v *visit) expects() bool {
	r := v.request
	return r.ProtoMajor == 1 && r.ContentLength != 0 && r.Header["Expect"] != nil
}

// whole ends an answer that has been written to its end.
func (w *answerWriter) whole() {
	if w.resets {
		wire.SetReset(w.visit.request.Context(), false)
	}
}

// Unwrap gives http.ResponseController the rest of the writer.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dropHopByHop removes the headers for one connection, those that Connection names, and what is the proxy's alone
// to say.
func dropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Te", "Upgrade", "X-Retune-Error"} {
		delete(h, name)
	}
}
