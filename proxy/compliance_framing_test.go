package proxy

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smuggled stands behind a request of doubtful length. Whoever reads the length otherwise than the proxy takes it
// for a request.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

var smuggledLength = strconv.Itoa(len(smuggled))

const post = "POST / HTTP/1.1\r\nHost: x\r\n"

// Each of these is a request that two parsers may read in two ways, or that is none at all. RFC 9112 §2.2, §5.1,
// §5.2, §6.1, §6.3.
func TestComplianceFramingRefused(t *testing.T) {
	const chunked = "0\r\n\r\n" + smuggled
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct {
			name, request string
			status        int
		}{
			{"CL and TE", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400},
			{"TE and CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked, 400},
			{"TE and CL 0", post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + chunked, 400},
			{"GET with CL and TE", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400},
			{"two equal CL", post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab" + smuggled, 400},
			{"two unequal CL", post + "Content-Length: 0\r\nContent-Length: " + smuggledLength + "\r\n\r\n" + smuggled, 400},
			{"two CL in two cases", post + "Content-Length: 2\r\ncontent-LENGTH: 2\r\n\r\nab" + smuggled, 400},
			{"CL list", post + "Content-Length: 2, 2\r\n\r\nab" + smuggled, 400},
			{"CL list with an empty member", post + "Content-Length: 2,\r\n\r\nab" + smuggled, 400},
			{"CL plus", post + "Content-Length: +2\r\n\r\nab" + smuggled, 400},
			{"CL minus", post + "Content-Length: -2\r\n\r\nab" + smuggled, 400},
			{"CL minus nought", post + "Content-Length: -0\r\n\r\n" + smuggled, 400},
			{"CL with a space", post + "Content-Length: 1 0\r\n\r\nab" + smuggled, 400},
			{"CL hexadecimal", post + "Content-Length: 0x2\r\n\r\nab" + smuggled, 400},
			{"CL with an exponent", post + "Content-Length: 1e1\r\n\r\nab" + smuggled, 400},
			{"CL with an underscore", post + "Content-Length: 1_0\r\n\r\nab" + smuggled, 400},
			{"CL fraction", post + "Content-Length: 2.0\r\n\r\nab" + smuggled, 400},
			{"CL quoted", post + "Content-Length: \"2\"\r\n\r\nab" + smuggled, 400},
			{"CL empty", post + "Content-Length:\r\n\r\n" + smuggled, 400},
			{"CL over 64 bits", post + "Content-Length: 18446744073709551618\r\n\r\nab" + smuggled, 400},
			{"CL over 63 bits", post + "Content-Length: 9223372036854775808\r\n\r\nab" + smuggled, 400},
			{"CL with a form feed", post + "Content-Length: 2\x0c\r\n\r\nab" + smuggled, 400},
			{"space before the colon of CL", post + "Content-Length : 2\r\n\r\nab" + smuggled, 400},
			{"tab before the colon of TE", post + "Transfer-Encoding\t: chunked\r\n\r\n" + chunked, 400},

			{"TE xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n" + chunked, 501},
			{"TE chunkedx", post + "Transfer-Encoding: chunkedx\r\n\r\n" + chunked, 501},
			{"TE chunked, identity", post + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunked, 501},
			{"TE chunked, chunked", post + "Transfer-Encoding: chunked, chunked\r\n\r\n" + chunked, 501},
			{"TE chunked with a comma", post + "Transfer-Encoding: chunked,\r\n\r\n" + chunked, 501},
			{"TE comma, chunked", post + "Transfer-Encoding: , chunked\r\n\r\n" + chunked, 501},
			{"TE chunked with a parameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n" + chunked, 501},
			{"TE quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n" + chunked, 501},
			{"TE with a vertical tab", post + "Transfer-Encoding: \x0bchunked\r\n\r\n" + chunked, 400},
			{"TE with a NUL behind", post + "Transfer-Encoding: chunked\x00\r\n\r\n" + chunked, 400},
			{"TE with a high byte", post + "Transfer-Encoding: \xa0chunked\r\n\r\n" + chunked, 501},
			{"TE with a long s", post + "Tran\u017ffer-Encoding: chunked\r\n\r\n" + chunked, 400},
			{"TE empty", post + "Transfer-Encoding:\r\n\r\n" + smuggled, 501},
			{"TE identity", post + "Transfer-Encoding: identity\r\n\r\n" + smuggled, 501},
			{"TE gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked, 501},
			{"two TE", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400},
			{"two TE, identity first", post + "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 501},
			{"TE folded", post + "Transfer-Encoding: chunked\r\n ;x\r\n\r\n" + chunked, 400},
			{"TE in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400},

			{"bare LF throughout", "GET / HTTP/1.1\nHost: x\n\n" + smuggled, 400},
			{"bare LF in the request line", "GET / HTTP/1.1\nHost: x\r\n\r\n" + smuggled, 400},
			{"bare LF between headers", "GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n" + smuggled, 400},
			{"bare LF at the head's end", "GET / HTTP/1.1\r\nHost: x\r\n\n" + smuggled, 400},
			{"bare CR in a value", "GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n" + smuggled, 400},
			{"bare CR in the request line", "GET /\rHTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled, 400},
			{"CR CR LF", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\r\n\r\n" + smuggled, 400},
			{"obs-fold with a space", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" + smuggled, 400},
			{"obs-fold with a tab", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc: d\r\n\r\n" + smuggled, 400},
			{"space before the first header", "GET / HTTP/1.1\r\n Host: x\r\n\r\n" + smuggled, 400},
			{"line of spaces at the head's end", "GET / HTTP/1.1\r\nHost: x\r\n \r\n\r\n" + smuggled, 400},
		} {
			check(t, c.name, func(t *testing.T) { e.refused(t, c.request, c.status) })
		}
	})
}

// The shapes of a body that are sound, however unusual, reach the backend whole, and the next request is read
// where it begins.
func TestComplianceFramingPasses(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, request, body string }{
			{"CL", post + "Content-Length: 5\r\n\r\nhello", "hello"},
			{"CL 0", post + "Content-Length: 0\r\n\r\n", ""},
			{"CL with leading zeros", post + "Content-Length: 0005\r\n\r\nhello", "hello"},
			{"CL between spaces and tabs", post + "Content-Length: \t 5 \t\r\n\r\nhello", "hello"},
			{"CL in odd case", post + "cOnTeNt-lEnGtH: 5\r\n\r\nhello", "hello"},
			{"no length", post + "\r\n", ""},
			{"GET with a body", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "hello"},
			{"DELETE with a body", "DELETE / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "hello"},
			{"a request within a body", post + "Content-Length: " + smuggledLength + "\r\n\r\n" + smuggled, smuggled},
			{"bare LF within a body", post + "Content-Length: 5\r\n\r\n\n\n\n\n\n", "\n\n\n\n\n"},
			{"chunked", post + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello"},
			{"chunked, empty", post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
			{"chunked in odd case", post + "tRANSFER-eNCODING: ChUnKeD\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"},
			{"chunked behind a tab", post + "Transfer-Encoding:\tchunked \t\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"},
			{"chunk sizes in either case", post + "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
			{"chunk sizes with leading zeros", post + "Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n", "hello"},
			{"chunk extensions", post + "Transfer-Encoding: chunked\r\n\r\n2;a;b=c;d=\"e;f\"\r\nhe\r\n3; x = y\r\nllo\r\n0;last\r\n\r\n", "hello"},
			{"a request within a chunk", post + "Transfer-Encoding: chunked\r\n\r\n23\r\n" + smuggled + "\r\n0\r\n\r\n", smuggled},
			{"chunked GET", "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"},
			{"trailers", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\nX-C:\r\n\r\n", "hello"},
			{"empty line before", "\r\n" + post + "Content-Length: 5\r\n\r\nhello", "hello"},
			{"underscores are no CL", post + "Content_Length: 9\r\nContent-Length: 5\r\n\r\nhello", "hello"},
		} {
			check(t, c.name, func(t *testing.T) {
				got, _ := e.passes(t, c.request)
				require.Equal(t, c.body, got.body)
				require.LessOrEqual(t, len(got.all("Content-Length"))+len(got.all("Transfer-Encoding")), 1, got.head)
			})
		}
	})
}

// A body's framing shows its fault only when its head has gone on. The client is told 400 all the same, and to the
// backend the request never looks whole.
func TestComplianceChunksRefused(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct{ name, body string }{
			{"hex prefix", "0x5\r\nhello\r\n0\r\n\r\n"},
			{"negative", "-5\r\nhello\r\n0\r\n\r\n"},
			{"plus", "+5\r\nhello\r\n0\r\n\r\n"},
			{"no digit", "\r\nhello\r\n0\r\n\r\n"},
			{"no digit but an extension", ";a=b\r\nhello\r\n0\r\n\r\n"},
			{"no hexadecimal", "5g\r\nhello\r\n0\r\n\r\n"},
			{"underscore", "0_5\r\nhello\r\n0\r\n\r\n"},
			{"space before", " 5\r\nhello\r\n0\r\n\r\n"},
			{"space behind", "5 \r\nhello\r\n0\r\n\r\n"},
			{"space before an extension", "5 ;a\r\nhello\r\n0\r\n\r\n"}, // RFC 9112 §7.1.1 would let it stand
			{"space within", "0 5\r\nhello\r\n0\r\n\r\n"},
			{"over 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"},
			{"over 63 bits", "8000000000000005\r\nhello\r\n0\r\n\r\n"},
			{"endless zeros", strings.Repeat("0", 5000) + "5\r\nhello\r\n0\r\n\r\n"},
			{"bare LF throughout", "5\nhello\n0\n\n"},
			{"bare LF behind a size", "5\nhello\r\n0\r\n\r\n"},
			{"bare CR behind a size", "5\rhello\r\n0\r\n\r\n"},
			{"bare LF behind the last size", "5\r\nhello\r\n0\n\r\n"},
			{"bare LF behind data", "5\r\nhello\n0\r\n\r\n"},
			{"no line end behind data", "5\r\nhelloworld\r\n0\r\n\r\n"},
			{"data longer than its size", "2\r\nhello\r\n0\r\n\r\n"},
			{"bare LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"},
			{"bare CR in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"},
			{"NUL in an extension", "5;a\x00\r\nhello\r\n0\r\n\r\n"},
			{"oversize extension", "5;" + strings.Repeat("a", 20<<10) + "\r\nhello\r\n0\r\n\r\n"},
			{"space before a trailer's colon", "5\r\nhello\r\n0\r\nA : b\r\n\r\n"},
			{"folded trailer", "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n"},
			{"trailer without a name", "5\r\nhello\r\n0\r\n: b\r\n\r\n"},
			{"bare LF in a trailer", "5\r\nhello\r\n0\r\nA: b\nC: d\r\n\r\n"},
			{"bare LF at the end", "5\r\nhello\r\n0\r\n\n"},
			{"oversize trailers", "5\r\nhello\r\n0\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n\r\n"},
		} {
			check(t, c.name, func(t *testing.T) {
				b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				p := e.start(t, nil, b)
				e.refusal(t, p, post+"Transfer-Encoding: chunked\r\n\r\n"+c.body+smuggled, 400)
				e.nobodysFailure(t, p)
				require.NoError(t, p.stop())
				b.stop()
				require.Empty(t, b.requests(), "the backend never sees it as whole")
				require.NotContains(t, b.bytes(), "smuggled")
			})
		}
	})
}

// nobodysFailure waits until nothing is in flight; no backend is blamed for what was.
func (e contender) nobodysFailure(t *testing.T, p *running) {
	t.Helper()
	soon(t, "nothing is in flight", func() bool { return p.pool.inFlight() == 0 })
	for _, b := range p.pool.status(time.Now()) {
		require.Zero(t, b.Errors, "a client's fault is not backend %s's", b.ID)
	}
}
