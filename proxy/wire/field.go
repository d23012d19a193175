package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Field says which header field a line is, of those that a proxy acts on.
type Field uint8

// The fields. What is not among them is passed on as it is.
const (
	Other Field = iota
	Host
	ContentLength
	TransferEncoding
	Connection
	KeepAlive
	ProxyConnection
	ProxyAuthenticate
	ProxyAuthorization
	TE
	Upgrade
	Forwarded
	XForwardedFor
	XForwardedProto
	XForwardedHost
	XForwardedOther   // a further X-Forwarded-*, or X-Forwarded
	XForwardedSpoofed // any of them with an underscore for a hyphen
	XRetuneError
	Date
)

// Passes reports whether a request's line of this field goes on as it is, whoever sent it.
func (f Field) Passes() bool {
	switch f {
	case Other, Host, ContentLength, Upgrade, XRetuneError, Date:
		return true
	}
	return false
}

// FieldOf says which field a header name is.
func FieldOf(name string) Field { return fieldOf([]byte(name)) }

// fieldOf tells most names apart by their length and first letter: no table has to be in the cache for that.
func fieldOf(name []byte) Field {
	first := name[0] | 0x20
	switch len(name) {
	case 2:
		return orOther(name, first == 't', "te", TE)
	case 4:
		if first == 'd' {
			return orOther(name, true, "date", Date)
		}
		return orOther(name, first == 'h', "host", Host)
	case 7:
		return orOther(name, first == 'u', "upgrade", Upgrade)
	case 9:
		return orOther(name, first == 'f', "forwarded", Forwarded)
	case 10:
		if first == 'k' {
			return orOther(name, true, "keep-alive", KeepAlive)
		}
		return orOther(name, first == 'c', "connection", Connection)
	case 14:
		if first == 'c' {
			return orOther(name, true, "content-length", ContentLength)
		}
	case 16:
		if first == 'p' {
			return orOther(name, true, "proxy-connection", ProxyConnection)
		}
	case 17:
		if first == 't' {
			return orOther(name, true, "transfer-encoding", TransferEncoding)
		}
	case 18:
		if first == 'p' {
			return orOther(name, true, "proxy-authenticate", ProxyAuthenticate)
		}
	case 19:
		if first == 'p' {
			return orOther(name, true, "proxy-authorization", ProxyAuthorization)
		}
	}
	if first == 'x' && len(name) >= len("x-forwarded") {
		return withX(name)
	}
	return Other
}

func orOther(name []byte, maybe bool, lower string, f Field) Field {
	if maybe && EqualFold(name, lower) {
		return f
	}
	return Other
}

// withX tells the names apart that begin with an X.
func withX(name []byte) Field {
	for _, n := range []struct {
		name  string
		field Field
	}{
		{"x-forwarded-for", XForwardedFor}, {"x-forwarded-proto", XForwardedProto},
		{"x-forwarded-host", XForwardedHost}, {"x-retune-error", XRetuneError},
	} {
		if EqualFold(name, n.name) {
			return n.field
		}
	}
	return forwardedKin(name)
}

// forwardedKin tells a name that backends might read as an X-Forwarded-* header: many make the same variable of
// hyphens and underscores.
func forwardedKin(name []byte) Field {
	const prefix = "x-forwarded"
	f := XForwardedOther
	for i, c := range name {
		if c == '_' {
			c, f = '-', XForwardedSpoofed
		}
		if i < len(prefix) && c|0x20 != prefix[i] || i == len(prefix) && c != '-' {
			return Other
		}
	}
	return f
}

// parseField reads a header or trailer line, and refuses what is no such line: a fold, a space before the colon,
// a control character in the value.
func parseField(l []byte) (Field, []byte, *Fault) {
	k := 0
	for k < len(l) && tokens[l[k]] {
		k++
	}
	switch {
	case k == 0 && len(l) > 0 && (l[0] == ' ' || l[0] == '\t'):
		return Other, nil, errFold
	case k == 0 || k == len(l) || l[k] != ':':
		return Other, nil, errHeaderName
	}
	if !clean(l[k+1:]) {
		return Other, nil, errControl
	}
	return fieldOf(l[:k]), trim(l[k+1:]), nil
}

// Elements yields the elements of a comma-separated list, without white space around them, empty ones left out.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(list) > 0 {
			var e []byte
			e, list, _ = bytes.Cut(list, []byte(","))
			if e = trim(e); len(e) > 0 && !yield(e) {
				return
			}
		}
	}
}

// parseLength reads a Content-Length: digits alone.
func parseLength(v []byte) (n int64, fault *Fault) {
	if len(v) == 0 || len(v) > 18 { // 18 digits fit an int64
		return -1, errLength
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1, errLength
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// tokens marks the bytes of an RFC 9110 §5.6.2 token.
var tokens = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// controls marks the bytes that no field value may have.
var controls = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = c != '\t'
	}
	t[0x7f] = true
	return t
}()

// clean reports whether a field value has no control character but tabs. Most values are found clean eight bytes at a
// time: (x - n·ones) &^ x has the high bit of some byte set when a byte of x is below n, for n up to 128.
// Source: S. E. Anderson, Bit Twiddling Hacks, "Determine if a word has a byte less than n".
func clean(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	rest := b
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		del := x ^ 0x7f*ones
		if ((x-0x20*ones)&^x|(del-ones)&^del)&highs != 0 {
			break // a control character, or a tab
		}
		rest = rest[8:]
	}
	for _, c := range rest {
		if controls[c] {
			return false
		}
	}
	return true
}

func isToken(b []byte) bool {
	for _, c := range b {
		if !tokens[c] {
			return false
		}
	}
	return len(b) > 0
}

// EqualFold compares b with a lower-case word, by ASCII case only.
func EqualFold(b []byte, lower string) bool {
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
