package wire

import "bytes"

// Request is what one request head says about its message, gathered line by line. The zero value stands at its
// beginning.
type Request struct {
	// Method and Target are the request line's own bytes.
	Method, Target []byte
	// Host is the Host header's value, in the head's own bytes.
	Host []byte
	// Length is Content-Length; -1 without one. Chunked is the Transfer-Encoding. A sound head has at most one of them.
	Length  int64
	Chunked bool
	// Old is HTTP/1.0.
	Old bool
	// Upgrade is set by an Upgrade header.
	Upgrade bool

	connect bool // CONNECT

	blank bool // an empty line came before it
	begun bool // the request line has been seen
	hosts int
}

// Line takes the next line of the head, without its CRLF; the first one is the request line. It says which field
// the line is, and its value without white space around it.
func (r *Request) Line(l []byte) (Field, []byte, *Fault) {
	if r.begun {
		return r.field(l)
	}
	r.begun = true
	return Other, nil, r.requestLine(l)
}

// requestLine reads "METHOD target HTTP/1.x" with single spaces, as RFC 9112 §3 has it.
func (r *Request) requestLine(l []byte) *Fault {
	r.Length = -1
	m := bytes.IndexByte(l, ' ')
	v := bytes.LastIndexByte(l, ' ')
	if m < 1 || v <= m+1 || !isToken(l[:m]) {
		return RequestLine
	}
	r.Method, r.Target = l[:m], l[m+1:v]
	r.connect = string(r.Method) == "CONNECT"
	switch string(l[v+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		r.Old = true
	default:
		return errVersion
	}
	return soundTarget(r.Target, string(r.Method) == "OPTIONS", r.connect)
}

// field reads one "Name: value" line and keeps what decides the framing.
func (r *Request) field(l []byte) (f Field, value []byte, fault *Fault) {
	f, value, fault = parseField(l)
	switch f {
	case Host:
		r.hosts++
		r.Host = value
		if fault == nil && (len(value) == 0 && !r.Old || !isHost(value)) { // RFC 9110 §4.2.1: no http URI is without a host
			fault = errHost
		}
	case Upgrade:
		r.Upgrade = true
	case ContentLength:
		fault = r.contentLength(value)
	case TransferEncoding:
		fault = r.transferEncoding(value)
	}
	return f, value, fault
}

func (r *Request) contentLength(v []byte) (fault *Fault) {
	if r.Length >= 0 {
		return errTwoLengths
	}
	r.Length, fault = parseLength(v)
	return fault
}

func (r *Request) transferEncoding(v []byte) *Fault {
	switch {
	case r.Chunked:
		return errTwoTE
	case !EqualFold(v, "chunked"):
		return errCoding
	}
	r.Chunked = true
	return nil
}

// End judges the head as a whole, when its empty line has come.
func (r *Request) End() *Fault {
	switch {
	case !r.begun:
		return RequestLine
	case r.Chunked && r.Length >= 0:
		return errLengthAndTE
	case r.Chunked && r.Old:
		return errOldTE
	case r.hosts > 1, r.hosts == 0 && !r.Old:
		return errHost
	}
	return nil
}

// Incomplete judges the beginning of a head whose end has not come: what can't become one is not waited for. It has
// judged as many bytes of it before, and looks at lines that have become whole since then: else a head that comes byte
// by byte would cost the square of its length.
func Incomplete(head []byte, judged int) *Fault {
	if len(head) > 0 && !tokens[head[0]] && head[0] != '\r' {
		return RequestLine
	}
	var r Request
	rest := head
	if judged > 0 {
		if bytes.IndexByte(head[judged:], '\n') < 0 {
			return nil
		}
		if whole := bytes.LastIndexByte(head[:judged], '\n') + 1; whole > 0 {
			r.begun, r.Length, rest = true, -1, head[whole:]
		}
	}
	for !IsHTTP2(head) {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		if i == 0 || rest[i-1] != '\r' {
			return BareLF
		}
		if _, _, fault := r.Line(rest[:i-1]); fault != nil {
			return fault
		}
		rest = rest[i+1:]
	}
	return nil
}

// IsHTTP2 reports whether a client begins with HTTP/2: head is the first part of its preface, RFC 9113 §3.4.
func IsHTTP2(head []byte) bool { return bytes.HasPrefix(head, []byte("PRI * HTTP/2.0\r\n")) }
