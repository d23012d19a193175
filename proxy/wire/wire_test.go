package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a connection whose reads are a fixed stream in pieces of a fixed size.
type script struct {
	net.Conn
	in    io.Reader
	piece int
}

func (s *script) Read(p []byte) (int, error) {
	return s.in.Read(p[:min(len(p), s.piece)])
}
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error                     { return nil }

// through is everything that the screen hands on of a stream that comes in pieces of n bytes.
func through(stream string, n int, l Limits) (string, *Conn, error) {
	if l.Head == 0 {
		l.Head = 64 << 10
	}
	l.HeadTime = time.Minute
	c := newConn(&script{in: strings.NewReader(stream), piece: n}, &l)
	out, err := io.ReadAll(c)
	return string(out), c, err
}

func TestSoundRequestsPassUnchangedWhateverThePieces(t *testing.T) {
	get := "GET /a?b=%20 HTTP/1.1\r\nHost: x\r\nEmpty:\r\nX-Y: \t v; w=\"z\" \r\n\r\n"
	for name, stream := range map[string]string{
		"one":        get,
		"pipelined":  get + get + get,
		"old":        "GET / HTTP/1.0\r\n\r\n",
		"length":     "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab\ncd" + get,
		"no length":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + get,
		"chunked":    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\n\r\n\r\n0\r\n0\r\n\r\n" + get,
		"extensions": "POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n00a; q=\"1\"\r\n0123456789\r\n0;last\r\n\r\n" + get,
		"trailers":   "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: v\r\nU:\r\n\r\n" + get,
		"absolute":   "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"options":    "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"large body": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000) + get,
		"large head": "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 30000) + "\r\n\r\n" + get,
	} {
		for _, n := range []int{1, 2, 3, 7, 4096, 1 << 20} {
			out, c, err := through(stream, n, Limits{})
			require.NoError(t, err, name)
			require.Equal(t, stream, out, "%s in pieces of %d", name, n)
			require.Nil(t, c.fault.Load(), name)
		}
	}
}

func TestOneEmptyLineBeforeARequestIsDropped(t *testing.T) {
	get := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	out, _, err := through("\r\n"+get+"\r\n"+get, 1, Limits{})
	require.NoError(t, err)
	require.Equal(t, get+get, out)
	_, c, _ := through("\r\n\r\n"+get, 1, Limits{})
	require.Equal(t, RequestLine, c.fault.Load())
}

func TestHeadsThatAreRefused(t *testing.T) {
	const ok = "GET / HTTP/1.1\r\nHost: x\r\n"
	const post = "POST / HTTP/1.1\r\nHost: x\r\n"
	for stream, want := range map[string]*Fault{
		"GET  / HTTP/1.1\r\nHost: x\r\n\r\n":                                RequestLine,
		"GET /\r\n\r\n":                                                     RequestLine,
		"GET / a HTTP/1.1\r\nHost: x\r\n\r\n":                               RequestLine,
		"GET /\x7f HTTP/1.1\r\nHost: x\r\n\r\n":                             RequestLine,
		"G(T / HTTP/1.1\r\nHost: x\r\n\r\n":                                 RequestLine,
		"GET / HTTP/1.2\r\nHost: x\r\n\r\n":                                 errVersion,
		"GET / http/1.1\r\nHost: x\r\n\r\n":                                 errVersion,
		"GET / HTTP/2.0\r\nHost: x\r\n\r\n":                                 errVersion,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                  errHTTP2,
		"GET / HTTP/1.1\nHost: x\n\n":                                       BareLF,
		ok + "A: b\nC: d\r\n\r\n":                                           BareLF,
		ok + "A: b\r\n\n":                                                   BareLF,
		ok + "A: b\rC: d\r\n\r\n":                                           errControl,
		ok + "A: \x00\r\n\r\n":                                              errControl,
		ok + "A: b\r\n c\r\n\r\n":                                           errFold,
		"GET / HTTP/1.1\r\n Host: x\r\n\r\n":                                errFold,
		ok + "A : b\r\n\r\n":                                                errHeaderName,
		ok + ": b\r\n\r\n":                                                  errHeaderName,
		ok + "A\r\n\r\n":                                                    errHeaderName,
		ok + "A\x00: b\r\n\r\n":                                             errHeaderName,
		"GET / HTTP/1.1\r\n\r\n":                                            errHost,
		ok + "host: y\r\n\r\n":                                              errHost,
		post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na":            errTwoLengths,
		post + "Content-Length: 1, 1\r\n\r\na":                              errLength,
		post + "Content-Length: +1\r\n\r\na":                                errLength,
		post + "Content-Length: 0x1\r\n\r\na":                               errLength,
		post + "Content-Length: \r\n\r\n":                                   errLength,
		post + "Content-Length: 9999999999999999999\r\n\r\n":                errLength,
		post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n":    errLengthAndTE,
		post + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n":    errLengthAndTE,
		post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n": errTwoTE,
		post + "Transfer-Encoding: gzip, chunked\r\n\r\n":                   errCoding,
		post + "Transfer-Encoding: \x0bchunked\r\n\r\n":                     errControl,
		post + "Transfer-Encoding: \"chunked\"\r\n\r\n":                     errCoding,
		post + "Transfer-Encoding:\r\n\r\n":                                 errCoding,
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n":             errOldTE,
		ok + "X: " + strings.Repeat("y", 65<<10):                            HeadSize,
	} {
		for _, before := range []string{"", "GET /first HTTP/1.1\r\nHost: x\r\n\r\n"} {
			if before != "" && want == errHTTP2 {
				want = errVersion // the preface is one only as the first bytes
			}
			for _, n := range []int{1, 1 << 20} {
				out, c, err := through(before+stream, n, Limits{})
				require.NoError(t, err)
				require.Equal(t, want, c.fault.Load(), "%.80q", stream)
				require.Equal(t, before+string(standIn), out, "%.80q", stream)
			}
		}
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	for body, want := range map[string]*Fault{
		"0x5\r\nhello\r\n0\r\n\r\n": errChunkSize,
		"\r\nhello\r\n":             errChunkSize,
		"-5\r\nhello\r\n":           errChunkSize,
		"5\nhello\r\n0\r\n\r\n":     errChunkSize,
		"5 \r\nhello\r\n0\r\n\r\n":  errChunkSize,
		"5\rhello":                  errChunkSize,
		"5 ;a\r\nhello\r\n":         errChunkSize,
		"5;a\nb\r\nhello\r\n":       errChunkSize,
		"fffffffffffffffff\r\n":     errChunkSize,
		"5;" + strings.Repeat("x", 300) + "\r\nhello\r\n":   errChunkSize,
		"5\r\nhello6\r\nworld!\r\n":                         errChunkEnd,
		"5\r\nhello\n0\r\n\r\n":                             errChunkEnd,
		"0\r\n\n":                                           errTrailer,
		"0\r\n: b\r\n\r\n":                                  errTrailer,
		"0\r\nA : b\r\n\r\n":                                errTrailer,
		"0\r\n A: b\r\n\r\n":                                errTrailer,
		"0\r\nA: b\nC: d\r\n\r\n":                           errTrailer,
		"0\r\nA: " + strings.Repeat("x", 5000) + "\r\n\r\n": errTrailerLength,
	} {
		for _, n := range []int{1, 1 << 20} {
			out, c, err := through(head+body, n, Limits{})
			require.ErrorIs(t, err, want, "%.60q", body)
			require.Equal(t, want, c.fault.Load())
			require.True(t, strings.HasPrefix(head+body, out) && len(out) >= len(head), "%.60q", out)
		}
	}
}

func TestHTTP2PassesWhenEnabledAndOnlyAsTheFirstBytes(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113 §3.4
	stream := preface + "\x00\x00\x00\x04\x00\n\n\x00"
	for _, n := range []int{1, 1 << 20} {
		out, _, err := through(stream, n, Limits{HTTP2: true})
		require.NoError(t, err)
		require.Equal(t, stream, out)
	}
	_, c, _ := through("GET / HTTP/1.1\r\nHost: x\r\n\r\n"+stream, 5, Limits{HTTP2: true})
	require.Equal(t, errVersion, c.fault.Load())
}

func TestAHeadThatIsTooSlowIsRefused(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := newConn(server, &Limits{Head: 1024, HeadTime: 20 * time.Millisecond})
	go client.Write([]byte("GET / HTTP/1.1\r\nHo"))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)), "the server's own deadline is far off")
	out, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, string(standIn), string(out))
	require.Equal(t, http.StatusRequestTimeout, c.fault.Load().Status)
}

func TestTheServersDeadlineStillHolds(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := newConn(server, &Limits{Head: 1024, HeadTime: time.Hour})
	go client.Write([]byte("GET / HTTP/1.1\r\nHo"))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := io.ReadAll(c)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Nil(t, c.fault.Load())
}

func TestUpgradeHoldsBackUntilTheServerAgrees(t *testing.T) {
	const ask = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n"
	const secret = "\x00\nGET /smuggled HTTP/1.1\n\n"
	l := Limits{Head: 1024, HeadTime: time.Minute}
	c := newConn(&script{in: strings.NewReader(ask + secret), piece: 1 << 20}, &l)
	head := make([]byte, 1024)
	n, err := c.Read(head)
	require.NoError(t, err)
	require.Equal(t, ask, string(head[:n]))
	n, err = c.Read(head)
	require.True(t, n == 0 && err == nil, "what follows is kept back: %q %v", head[:n], err)
	_, _ = c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	n, _ = c.Read(head)
	require.Zero(t, n, "100 is no agreement")
	_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
	rest, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, secret, string(rest))
}

// A server behind the screen answers what was pipelined before a fault, then the refusal, then closes.
func TestRefusalComesInItsTurn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.URL.Path)
	}), func(w http.ResponseWriter, _ *http.Request, f *Fault) { http.Error(w, f.Cause, f.Status) })
	srv := &http.Server{Handler: handler, ConnContext: ConnContext}
	go srv.Serve(NewListener(ln, Limits{}))
	defer srv.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Write([]byte("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" +
		"GET /3 HTTP/1.1\nHost: x\n\nGET /4 HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("z", 50000)))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	for _, want := range []string{"/1", "/2", "line feed without carriage return\n"} {
		res, err := http.ReadResponse(r, nil)
		require.NoError(t, err, want)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, want, string(body))
		require.Equal(t, strings.HasPrefix(want, "line"), res.Close)
	}
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestPlainRequestsAllocateNothing(t *testing.T) {
	const request = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nUser-Agent: test\r\n\r\nhello"
	in := &again{data: []byte(request)}
	c := newConn(&script{in: in, piece: 1 << 20}, &Limits{Head: 1 << 16, HeadTime: time.Minute})
	p := make([]byte, 4096)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for got := 0; got < len(request); {
			n, err := c.Read(p)
			if err != nil {
				panic(err)
			}
			got += n
		}
	}))
}

// again gives the same request again and again, one a read.
type again struct{ data []byte }

func (a *again) Read(p []byte) (int, error) { return copy(p, a.data), nil }

// FuzzScreen holds the screen against net/http's parser: whatever passes is framed the same by both.
func FuzzScreen(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab\r\nGET / HTTP/1.1\nHost: x\n\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\nTransfer-Encoding : chunked\r\n\r\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		l := Limits{Head: 64 << 10, HeadTime: time.Minute}
		piece = max(1, piece)
		c := newConn(&script{in: bytes.NewReader(stream), piece: piece}, &l)
		whole := messages(t, c)
		r := bufio.NewReaderSize(bytes.NewReader(whole.bytes), 64<<10)
		for i, end := range whole.ends {
			req, err := http.ReadRequest(r)
			if err != nil {
				return // net/http is stricter: it refuses and closes, nothing is smuggled
			}
			if _, err = io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if read := len(whole.bytes) - r.Buffered(); req.Method != "CONNECT" && read != end && end <= 64<<10 {
				t.Fatalf("message %d ends at %d for the screen, at %d for net/http: %q", i, end, read, whole.bytes)
			}
		}
	})
}

// passed is what the screen let through, and where in it each message ended.
type passed struct {
	bytes []byte
	ends  []int
}

// messages reads c one message at a time. It stops at a refusal or another protocol.
func messages(t *testing.T, c *Conn) (p passed) {
	one := make([]byte, 1)
	for c.at != atHold {
		n, err := c.Read(one)
		if err != nil || c.fault.Load() != nil {
			var fault *Fault
			if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &fault) {
				t.Fatal(err)
			}
			return p
		}
		p.bytes = append(p.bytes, one[:n]...)
		if c.r == c.ok && c.at == atHead {
			p.ends = append(p.ends, len(p.bytes))
		}
	}
	return p
}
