package wire

import "bytes"

// Answer is what one head of a backend's answer says, an interim one (1xx) too.
type Answer struct {
	Status  int   // 100 to 999
	Length  int64 // Content-Length; -1 without one
	Chunked bool
	// Last is set when the connection ends with this answer: it says so, or is of HTTP/1.0.
	Last bool
	// Edit is set when the head can't go to the client as it is.
	Edit bool
	// Dated is set by a Date header. RFC 9110 §6.6.1: who passes an answer on adds the one that is missing.
	Dated bool
	old   bool
}

// ParseAnswer reads the head of an answer, from its status line to its empty line. Its *Fault says what the
// backend did wrong.
func ParseAnswer(head []byte) (a Answer, fault *Fault) {
	a.Length = -1
	line, rest, fault := cutLine(head)
	if fault == nil {
		fault = a.statusLine(line)
	}
	for fault == nil {
		if line, rest, fault = cutLine(rest); len(line) == 0 {
			break
		}
		fault = a.field(line)
	}
	if fault == nil && a.Chunked && a.Length >= 0 {
		fault = errLengthAndTE
	}
	return a, fault
}

// cutLine takes the first line off b, without its CRLF.
func cutLine(b []byte) (line, rest []byte, fault *Fault) {
	i := bytes.IndexByte(b, '\n')
	if i < 1 || b[i-1] != '\r' {
		return nil, nil, BareLF
	}
	return b[:i-1], b[i+1:], nil
}

// statusLine reads "HTTP/1.x SP 3DIGIT SP [reason]"; the second space may be missing where the reason is.
func (a *Answer) statusLine(l []byte) *Fault {
	const version = "HTTP/1."
	if len(l) < 12 || string(l[:len(version)]) != version || l[7] != '0' && l[7] != '1' || l[8] != ' ' || len(l) > 12 && l[12] != ' ' {
		return errStatusLine
	}
	for _, c := range l[9:12] {
		if c < '0' || c > '9' {
			return errStatusLine
		}
		a.Status = 10*a.Status + int(c-'0')
	}
	for _, c := range l[12:] {
		if controls[c] {
			return errStatusLine
		}
	}
	if a.Status < 100 {
		return errStatusLine
	}
	a.old = l[7] == '0'
	a.Last, a.Edit = a.old, a.old
	return nil
}

func (a *Answer) field(l []byte) *Fault {
	f, v, fault := parseField(l)
	switch f {
	case ContentLength:
		if a.Length >= 0 {
			return errTwoLengths
		}
		a.Length, fault = parseLength(v)
	case TransferEncoding:
		if a.Chunked {
			return errTwoTE
		}
		if a.old {
			return errOldTE
		}
		if !EqualFold(v, "chunked") {
			return errCoding
		}
		a.Chunked = true
	case Date:
		a.Dated = true
	case Connection:
		a.Edit = true
		a.Last = a.Last || !EqualFold(v, "keep-alive")
	case KeepAlive, ProxyConnection, ProxyAuthenticate, TE, Upgrade, XRetuneError:
		a.Edit = true
	}
	return fault
}

// AppendAnswer appends the head of an answer as it goes to the client: without what concerns the connection to
// the backend alone. last adds that the connection ends with it, date the Date that it lacks; empty: it lacks none. The
// head has passed ParseAnswer.
func AppendAnswer(dst, head []byte, last bool, date string) []byte {
	line, rest, _ := cutLine(head)
	dst = append(append(append(dst, "HTTP/1.1"...), line[len("HTTP/1.1"):]...), "\r\n"...)
	fields := len(dst)
	var nominated [][]byte
	for {
		line, rest, _ = cutLine(rest)
		if len(line) == 0 {
			break
		}
		switch f, v, _ := parseField(line); f {
		case Connection:
			for e := range Elements(v) {
				nominated = append(nominated, e)
			}
		case KeepAlive, ProxyConnection, ProxyAuthenticate, TE, Upgrade, XRetuneError:
		default:
			dst = append(append(dst, line...), "\r\n"...)
		}
	}
	dst = DropFields(dst, fields, nominated)
	if date != "" {
		dst = append(append(append(dst, "Date: "...), date...), "\r\n"...)
	}
	if last {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// DropFields removes the lines of dst[from:] whose names are among names, but never one that the message's end
// or its host depend on. dst has whole lines that have passed a parser.
func DropFields(dst []byte, from int, names [][]byte) []byte {
	if len(names) == 0 {
		return dst
	}
	rest := dst[from:]
	dst = dst[:from]
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n') + 1
		name := rest[:bytes.IndexByte(rest[:end], ':')]
		switch f := fieldOf(name); {
		case f == Host, f == ContentLength, f == TransferEncoding, !anyFold(names, name):
			dst = append(dst, rest[:end]...)
		}
		rest = rest[end:]
	}
	return dst
}

func anyFold(names [][]byte, name []byte) bool {
	for _, n := range names {
		if bytes.EqualFold(n, name) {
			return true
		}
	}
	return false
}
