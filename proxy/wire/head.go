package wire

import "bytes"

// head is what one request head says about where its message ends, gathered line by line.
type head struct {
	blank   bool // an empty line came before it
	begun   bool // the request line has been seen
	old     bool // HTTP/1.0
	connect bool // CONNECT
	upgrade bool // an Upgrade header
	chunked bool
	length  int64 // of the body; -1: no Content-Length
	hosts   int
}

// line takes the next line of the head, without its CRLF.
func (h *head) line(l []byte) *Fault {
	if h.begun {
		return h.field(l)
	}
	h.begun = true
	return h.requestLine(l)
}

// requestLine reads "METHOD target HTTP/1.x" with single spaces, as RFC 9112 §3 has it.
func (h *head) requestLine(l []byte) *Fault {
	h.length = -1
	m := bytes.IndexByte(l, ' ')
	v := bytes.LastIndexByte(l, ' ')
	if m < 1 || v <= m+1 || !isToken(l[:m]) {
		return errRequestLine
	}
	for _, c := range l[m+1 : v] {
		if c <= ' ' || c == 0x7f {
			return errRequestLine
		}
	}
	h.connect = string(l[:m]) == "CONNECT"
	switch string(l[v+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.old = true
	default:
		return errVersion
	}
	return nil
}

// field reads one "Name: value" line and keeps what decides the framing.
func (h *head) field(l []byte) *Fault {
	k, fault := splitField(l)
	if fault != nil {
		return fault
	}
	name, value := l[:k], trim(l[k+1:])
	switch k {
	case len("host"):
		if equalFold(name, "host") {
			h.hosts++
		}
	case len("upgrade"):
		h.upgrade = h.upgrade || equalFold(name, "upgrade")
	case len("content-length"):
		if equalFold(name, "content-length") {
			return h.contentLength(value)
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			return h.transferEncoding(value)
		}
	}
	return nil
}

func (h *head) contentLength(v []byte) *Fault {
	if h.length >= 0 {
		return errTwoLengths
	}
	if len(v) == 0 || len(v) > 18 { // 18 digits fit an int64
		return errLength
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return errLength
		}
		n = n*10 + int64(c-'0')
	}
	h.length = n
	return nil
}

func (h *head) transferEncoding(v []byte) *Fault {
	switch {
	case h.chunked:
		return errTwoTE
	case !equalFold(v, "chunked"):
		return errCoding
	}
	h.chunked = true
	return nil
}

// end judges the head as a whole, when its empty line has come.
func (h *head) end() *Fault {
	switch {
	case !h.begun:
		return errRequestLine
	case h.chunked && h.length >= 0:
		return errLengthAndTE
	case h.chunked && h.old:
		return errOldTE
	case h.hosts > 1, h.hosts == 0 && !h.old:
		return errHost
	}
	return nil
}

// splitField finds the colon of a header or trailer line, and refuses what is no such line: a fold, a space
// before the colon, a control character in the value.
func splitField(l []byte) (colon int, fault *Fault) {
	if len(l) > 0 && (l[0] == ' ' || l[0] == '\t') {
		return 0, errFold
	}
	k := bytes.IndexByte(l, ':')
	if k < 1 || !isToken(l[:k]) {
		return 0, errHeaderName
	}
	for _, c := range l[k+1:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, errControl
		}
	}
	return k, nil
}

// tokens marks the bytes of an RFC 9110 §5.6.2 token.
var tokens = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

func isToken(b []byte) bool {
	for _, c := range b {
		if !tokens[c] {
			return false
		}
	}
	return len(b) > 0
}

// equalFold compares b with a lower-case word, by ASCII case only.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim cuts the optional white space of a header value: spaces and tabs, nothing else.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
