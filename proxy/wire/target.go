package wire

import "bytes"

// CheckTarget holds the target and the host of a request of HTTP/2 to what one of HTTP/1.1 is held to: that is what
// it becomes.
func CheckTarget(method, target, host string) *Fault {
	if target == "" {
		return errTarget
	}
	if fault := soundTarget([]byte(target), method == "OPTIONS", method == "CONNECT"); fault != nil {
		return fault
	}
	if host == "" || !isHost([]byte(host)) {
		return errHost
	}
	return nil
}

// soundTarget takes a target in origin-form, in absolute-form with a host and without a user, and "*" for OPTIONS
// alone (RFC 9112 §3.2, RFC 9110 §4.2). A "#" is none of a target's bytes: some take what follows for a fragment,
// some for the path. What CONNECT asks for is not looked at: it is refused behind the screen.
func soundTarget(t []byte, options, connect bool) *Fault {
	for _, c := range t {
		if c <= ' ' || c == 0x7f || c == '#' {
			return RequestLine
		}
	}
	if t[0] == '/' || connect || options && string(t) == "*" {
		return nil
	}
	i := bytes.Index(t, []byte("://"))
	if i < 1 || !isToken(t[:i]) {
		return errTarget
	}
	host := t[i+3:]
	if end := bytes.IndexAny(host, "/?"); end >= 0 {
		host = host[:end]
	}
	if len(host) == 0 || !isHost(host) {
		return errTarget
	}
	return nil
}

// isHost reports whether b is a host with or without a port, by RFC 3986 §3.2: a name, an IPv4 address, or an IPv6
// address in brackets. Empty is one.
func isHost(b []byte) bool {
	if i := bytes.LastIndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i:], ']') < 0 {
		for _, c := range b[i+1:] {
			if c < '0' || c > '9' {
				return false
			}
		}
		if b = b[:i]; i == 0 {
			return false
		}
	}
	if len(b) > 1 && b[0] == '[' && b[len(b)-1] == ']' {
		for _, c := range b[1 : len(b)-1] {
			if hexDigit(c) < 0 && c != ':' && c != '.' {
				return false
			}
		}
		return true
	}
	for _, c := range b {
		if !hosts[c] {
			return false
		}
	}
	return true
}

// hosts marks the bytes of a registered name, RFC 3986 §3.2.2.
var hosts = func() (t [256]bool) {
	for _, c := range []byte("!$&'()*+,;=%-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()
