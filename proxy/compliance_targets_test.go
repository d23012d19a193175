package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Heads that are no head of HTTP/1.1, and targets and Hosts that name nothing. RFC 9112 §2.3, §3, §5; RFC 9110
// §4.2, §5.5, §5.6.2, §7.2.
func TestComplianceHeadsRefused(t *testing.T) {
	const h = " HTTP/1.1\r\nHost: x\r\n"
	get := func(line string) string { return "GET / HTTP/1.1\r\nHost: x\r\n" + line + "\r\n\r\n" + smuggled }
	host := func(line string) string { return "GET / HTTP/1.1\r\n" + line + "\r\n" + smuggled }
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, request string }{
			{"method with a parenthesis", "G(T /" + h + "\r\n"},
			{"method with a high byte", "G\xc9T /" + h + "\r\n"},
			{"method with a NUL", "G\x00T /" + h + "\r\n"},
			{"no method", " /" + h + "\r\n"},
			{"space before the method", " GET /" + h + "\r\n"},
			{"tab for the first space", "GET\t/" + h + "\r\n"},
			{"tab for the second space", "GET /\tHTTP/1.1\r\nHost: x\r\n\r\n"},
			{"two spaces before the target", "GET  /" + h + "\r\n"},
			{"two spaces before the version", "GET / " + h + "\r\n"},
			{"space behind the version", "GET / HTTP/1.1 \r\nHost: x\r\n\r\n"},
			{"space in the target", "GET /a b" + h + "\r\n"},
			{"two empty lines before", "\r\n\r\nGET /" + h + "\r\n"},
			{"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n"},
			{"simple request of HTTP/0.9", "GET /\r\n"},
			{"HTTP/0.9", "GET / HTTP/0.9\r\nHost: x\r\n\r\n"},
			{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: x\r\n\r\n"},
			{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: x\r\n\r\n"},
			{"HTTP/01.1", "GET / HTTP/01.1\r\nHost: x\r\n\r\n"},
			{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n"},
			{"http/1.1", "GET / http/1.1\r\nHost: x\r\n\r\n"},
			{"HTTPS/1.1", "GET / HTTPS/1.1\r\nHost: x\r\n\r\n"},
			{"HTTP 1.1", "GET / HTTP 1.1\r\nHost: x\r\n\r\n"},
			{"HTTP/2 while disabled", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
			{"TLS on the plain port", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n"},

			{"NUL in a value", get("A: a\x00b")},
			{"SOH in a value", get("A: a\x01b")},
			{"DEL in a value", get("A: a\x7fb")},
			{"form feed in a value", get("A: \x0cb")},
			{"NUL in a name", get("A\x00: b")},
			{"no name", get(": b")},
			{"no colon", get("A")},
			{"space in a name", get("A B: c")},
			{"space before the colon", get("A : b")},
			{"tab before the colon", get("A\t: b")},
			{"quote in a name", get("\"A\": b")},
			{"high byte in a name", get("\xc4: b")},
			{"slash in a name", get("A/B: c")},

			{"target without a slash", "GET a" + h + "\r\n"},
			{"NUL in the target", "GET /\x00" + h + "\r\n"},
			{"DEL in the target", "GET /\x7f" + h + "\r\n"},
			{"fragment", "GET /a#b" + h + "\r\n"},
			{"* for GET", "GET *" + h + "\r\n"},
			{"authority-form for GET", "GET x:80" + h + "\r\n"},
			{"absolute-form without a host", "GET http:///a" + h + "\r\n"},
			{"absolute-form without an authority", "GET http:a" + h + "\r\n"},
			{"absolute-form with a user", "GET http://u:p@x/" + h + "\r\n"},
			{"absolute-form with a malformed host", "GET http://x\"/" + h + "\r\n"},
			{"absolute-form without Host", "GET http://x/ HTTP/1.1\r\n\r\n"},

			{"no Host", host("")},
			{"two Hosts", host("Host: x\r\nHost: y\r\n")},
			{"two equal Hosts", host("Host: x\r\nhost: x\r\n")},
			{"empty Host", host("Host:\r\n")},
			{"Host of white space", host("Host: \t \r\n")},
			{"Host with a space", host("Host: x y\r\n")},
			{"Host list", host("Host: x, y\r\n")},
			{"Host with a slash", host("Host: x/y\r\n")},
			{"Host with a user", host("Host: u@x\r\n")},
			{"Host with a question mark", host("Host: x?y\r\n")},
			{"Host with a backslash", host("Host: x\\y\r\n")},
			{"Host with a quote", host("Host: \"x\"\r\n")},
			{"Host with a high byte", host("Host: \xfcx\r\n")},
			{"Host with a port that is none", host("Host: x:http\r\n")},
			{"Host with two ports", host("Host: x:80:81\r\n")},
			{"Host with a port alone", host("Host: :80\r\n")},
			{"Host of a bare IPv6 address", host("Host: ::1\r\n")},
			{"Host with an open bracket", host("Host: [::1\r\n")},
			{"Host behind a space before the colon", host("Host : x\r\n")},
		} {
			check(t, c.name, func(t *testing.T) { e.refused(t, c.request, 400) })
		}
		for _, c := range []struct{ name, request string }{
			{"CONNECT", "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n" + smuggled},
			{"CONNECT with a path", "CONNECT /a HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled},
		} {
			check(t, c.name, func(t *testing.T) { e.refused(t, c.request, 405, 400) })
		}
	})
}

// A target in origin-form reaches the backend byte for byte: what it means is the backend's to say.
func TestComplianceTargetsPassUnchanged(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, target := range []string{
			"/", "//", "//a//b/", "///a", "/a/../b", "/./a/.", "/../../etc/passwd", "/%2e%2e/a", "/a%2Fb%2fc", "/%41%7e%7E",
			"/a%20b?c=%20d", "/a?b=%zz;c", "/?", "/??", "/a?b?c", "/a?b=c&b=c&&;", "/a;b=c;d", "/!$&'()*+,;=:@-._~",
			"/a\"<>\\^`{|}b", "/a?\"<>\\^`{|}", "/\xe4\xbd\xa0", "/a?\xff\xfe", "/%c0%af", "/%00", "/a/http://b/", "/a|b?c[]=d",
			"/" + strings.Repeat("a", 16<<10), "/?" + strings.Repeat("b", 16<<10),
		} {
			check(t, target[:min(len(target), 20)], func(t *testing.T) {
				got, _ := e.passes(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
				require.Equal(t, "GET "+target+" HTTP/1.1", got.start())
			})
		}
		for _, target := range []string{"/%", "/%zz", "/a%2"} {
			check(t, "malformed "+target, func(t *testing.T) { e.refusedOrUnchanged(t, target) })
		}
	})
}

// refusedOrUnchanged: a target that RFC 3986 doesn't know may be refused, but not mended.
func (e contender) refusedOrUnchanged(t *testing.T, target string) {
	b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	p := e.start(t, nil, b)
	got := p.raw("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.HasPrefix(got, "HTTP/1.1 400 ") {
		require.Empty(t, b.requests())
		return
	}
	require.Equal(t, "GET "+target+" HTTP/1.1", b.requests()[0].start())
}

// Which host a request is for is said once to the backend: by the target where that names one, RFC 9112 §3.2.2.
func TestComplianceHostPasses(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, request, start, host string }{
			{"Host", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1", "x"},
			{"Host with a port", "GET / HTTP/1.1\r\nHost: x:8080\r\n", "GET / HTTP/1.1", "x:8080"},
			{"Host with an empty port", "GET / HTTP/1.1\r\nHost: x:\r\n", "GET / HTTP/1.1", "x:"},
			{"Host in upper case", "GET / HTTP/1.1\r\nHOST: ShOp.Example\r\n", "GET / HTTP/1.1", "ShOp.Example"},
			{"Host of an IPv6 address", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n", "GET / HTTP/1.1", "[2001:db8::1]:80"},
			{"Host without a space", "GET / HTTP/1.1\r\nHost:x\r\n", "GET / HTTP/1.1", "x"},
			{"Host between spaces and tabs", "GET / HTTP/1.1\r\nHost: \t x\t \r\n", "GET / HTTP/1.1", "x"},
			{"Host last", "GET / HTTP/1.1\r\nA: b\r\nHost: x\r\n", "GET / HTTP/1.1", "x"},
			{"Host with an underscore", "GET / HTTP/1.1\r\nHost: a_b\r\n", "GET / HTTP/1.1", "a_b"},
			{"absolute-form", "GET http://other/a?b HTTP/1.1\r\nHost: x\r\n", "GET /a?b HTTP/1.1", "other"},
			{"absolute-form with a port", "GET http://other:81/a HTTP/1.1\r\nHost: x\r\n", "GET /a HTTP/1.1", "other:81"},
			{"absolute-form without a path", "GET http://other HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1", "other"},
			{"absolute-form with a query alone", "GET http://other?b HTTP/1.1\r\nHost: x\r\n", "GET /?b HTTP/1.1", "other"},
			{"absolute-form in upper case", "GET HTTP://Other/a HTTP/1.1\r\nHost: x\r\n", "GET /a HTTP/1.1", "Other"},
			{"absolute-form of https", "GET https://other/a HTTP/1.1\r\nHost: x\r\n", "GET /a HTTP/1.1", "other"},
			{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n", "OPTIONS * HTTP/1.1", "x"},
			{"OPTIONS of a host", "OPTIONS http://other HTTP/1.1\r\nHost: x\r\n", "OPTIONS * HTTP/1.1", "other"}, // RFC 9112 §3.2.4
			{"unknown method", "BREW /pot HTTP/1.1\r\nHost: x\r\n", "BREW /pot HTTP/1.1", "x"},
			{"method in lower case", "get / HTTP/1.1\r\nHost: x\r\n", "get / HTTP/1.1", "x"},
		} {
			check(t, c.name, func(t *testing.T) {
				got, _ := e.passes(t, c.request+"\r\n")
				require.Equal(t, c.start, got.start())
				require.Equal(t, []string{c.host}, got.all("Host"))
				require.Equal(t, []string{c.host}, got.all("X-Forwarded-Host"))
			})
		}
	})
}
