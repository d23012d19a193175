package proxy

import (
	"net/http"
	"strings"
)

// interim is the client's side of the full lane, as interim answers (1xx) need it: none goes to a client of
// HTTP/1.0, which would take it for the answer (RFC 9110 §15.2), and none takes along what concerns the backend's
// connection alone; ReverseProxy sees to that for final answers only.
type interim struct {
	http.ResponseWriter
	old bool // the client speaks HTTP/1.0
}

// WriteHeader writes the head of an interim answer or of the final one.
func (w *interim) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		if w.old {
			return
		}
		dropHopByHop(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the rest of the writer.
func (w *interim) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
