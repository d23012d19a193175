package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each of these is a request that two parsers may read in two ways, or that is none at all. The proxy has to
// answer it itself, close, and let nothing of it reach the backend.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	var mu sync.Mutex
	var reached []string
	p := start(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, r.URL.Path)
	}))
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"CL and TE":             {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, 400},
		"TE and CL":             {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + smuggled, 400},
		"two equal CL":          {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab" + smuggled, 400},
		"two unequal CL":        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 2\r\n\r\nab" + smuggled, 400},
		"CL list":               {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\nab" + smuggled, 400},
		"CL with a sign":        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\nab" + smuggled, 400},
		"TE with vertical tab":  {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + smuggled, 400},
		"TE identity":           {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n" + smuggled, 501},
		"TE gzip, chunked":      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled, 501},
		"TE in HTTP/1.0":        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, 400},
		"bare LF":               {"GET / HTTP/1.1\nHost: x\n\n" + smuggled, 400},
		"bare LF in a header":   {"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n" + smuggled, 400},
		"bare CR":               {"GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n" + smuggled, 400},
		"obs-fold":              {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" + smuggled, 400},
		"space before colon":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\nab" + smuggled, 400},
		"NUL in a header":       {"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n" + smuggled, 400},
		"no Host":               {"GET / HTTP/1.1\r\n\r\n" + smuggled, 400},
		"two Hosts":             {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + smuggled, 400},
		"malformed Host":        {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400},
		"two spaces":            {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled, 400},
		"unknown version":       {"GET / HTTP/1.2\r\nHost: x\r\n\r\n" + smuggled, 400},
		"HTTP/2 while disabled": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"oversize head":         {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", 431},
		"CONNECT":               {"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n" + smuggled, 405},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.raw(c.request)
			require.True(t, strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)), "%q", got)
			require.Equal(t, 1, strings.Count(got, "HTTP/1.1 "), "one answer, then the end: %q", got)
		})
	}
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, reached)
}

// A body's framing shows its fault only when its head has been forwarded. The client is told 400 all the same,
// and the backend never sees the request as whole.
func TestBadChunksAreRefused(t *testing.T) {
	whole := make(chan string, 100)
	p := start(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil {
			whole <- string(b)
		}
	}))
	for name, body := range map[string]string{
		"hex prefix":        "0x5\r\nhello\r\n0\r\n\r\n",
		"bare LF":           "5\nhello\n0\n\n",
		"negative":          "-5\r\nhello\r\n0\r\n\r\n",
		"too large":         "ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"no end of data":    "5\r\nhelloworld\r\n0\r\n\r\n",
		"LF in extension":   "5;a\nb\r\nhello\r\n0\r\n\r\n",
		"malformed trailer": "5\r\nhello\r\n0\r\nA : b\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := p.raw("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
			require.True(t, strings.HasPrefix(got, "HTTP/1.1 400 "), "%q", got)
			require.Equal(t, 1, strings.Count(got, "HTTP/1.1 "), "%q", got)
		})
	}
	require.Empty(t, whole)
	soon(t, "nothing is left in flight", func() bool { return p.pool.inFlight() == 0 })
	for _, b := range p.pool.status(p.started) {
		require.Zero(t, b.Errors, "a client's fault is not the backend's")
	}
}

func TestSoundRequestsOfEveryShapePass(t *testing.T) {
	p := start(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %v", r.Method, r.RequestURI, r.Host, b, r.Trailer)
	}))
	for name, c := range map[string]struct{ request, want string }{
		"plain":         {"GET /a?b=%zz;c HTTP/1.1\r\nHost: h\r\n", "GET /a?b=%zz;c h  map[]"},
		"absolute form": {"GET http://other/a HTTP/1.1\r\nHost: h\r\n", "GET /a other  map[]"},
		"options *":     {"OPTIONS * HTTP/1.1\r\nHost: h\r\n", ""},
		"empty line":    {"\r\nGET / HTTP/1.1\r\nHost: h\r\n", "GET / h  map[]"},
		"old":           {"GET / HTTP/1.0\r\nHost: h\r\n", "GET / h  map[]"},
		"length":        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n", "POST / h hello map[]"},
		"expect":        {"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n", "POST / h hello map[]"},
		"chunked":       {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n", "POST / h hello map[]"},
		"empty host":    {"GET / HTTP/1.1\r\nHost:\r\n", ""},
	} {
		body := ""
		if strings.Contains(c.request, "Content-Length") {
			body = "hello"
		} else if strings.Contains(c.request, "chunked") {
			body = "2;x=\"y\"\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
		}
		t.Run(name, func(t *testing.T) {
			got := p.raw(c.request + "Connection: close\r\n\r\n" + body)
			require.Contains(t, got, " 200 OK\r\n")
			require.Contains(t, got, c.want)
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrderBeforeARefusal(t *testing.T) {
	p := start(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	c := p.dial()
	defer c.Close()
	_, err := io.WriteString(c, get("/1")+get("/2")+get("/3")+"GET / HTTP/1.1\nHost: x\n\n"+get("/4"))
	require.NoError(t, err)
	list, bodies := answers(t, c, 4)
	require.Equal(t, []string{"/1", "/2", "/3"}, bodies[:3])
	require.Equal(t, http.StatusBadRequest, list[3].StatusCode)
	require.Equal(t, "malformed_request", list[3].Header.Get("X-Retune-Error"))
}

// A fault behind a request that fails is no excuse for that failure.
func TestAFaultBehindAFailureKeepsItsOwnAnswer(t *testing.T) {
	bad, _ := halfServer(t)
	p := start(t, nil, bad)
	c := p.dial()
	defer c.Close()
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\nHost: x\n\n")
	require.NoError(t, err)
	list, _ := answers(t, c, 2)
	require.Equal(t, http.StatusBadGateway, list[0].StatusCode)
	require.Equal(t, http.StatusBadRequest, list[1].StatusCode)
}

// rawBackend is a server that answers every request with the same bytes, and closes.
func rawBackend(t *testing.T, answer string) *httptest.Server {
	return backend(t, func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	})
}

// What a backend answers reaches the client whole, and framed in one way only.
func TestAnswersOfEveryShapePass(t *testing.T) {
	for name, c := range map[string]struct {
		method, answer string
		status         int
		body           string
		without        string // what the client may not see
	}{
		"HEAD with a length": {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", ""},
		"204":                {"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", "Content-Length"},
		"304":                {"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304, "", "Content-Length"},
		"until close":        {"GET", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello", ""},
		"old":                {"GET", "HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello", ""},
		"CL and TE":          {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello", "Content-Length"},
		"two CL":             {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello", 502, "", "hello"},
		"no status line":     {"GET", "hello\r\n\r\n", 502, "", "hello"},
		"oversize head":      {"GET", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 502, "", "aaaa"},
		"its own Date":       {"GET", "HTTP/1.1 200 OK\r\nDate: then\r\nServer: theirs\r\nContent-Length: 0\r\n\r\n", 200, "", "GMT"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, rawBackend(t, c.answer))
			got := p.raw(c.method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), &http.Request{Method: c.method})
			require.NoError(t, err)
			require.Equal(t, c.status, res.StatusCode)
			if c.status == 200 {
				require.Equal(t, c.body, read(t, res))
			}
			if c.without != "" {
				require.NotContains(t, got, c.without)
			}
		})
	}
}

// A backend that refuses an upload before its end is heard: the client gets its 413, not a broken connection.
func TestAnEarlyAnswerOvertakesTheUpload(t *testing.T) {
	p := start(t, nil, backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	c := p.dial()
	defer c.Close()
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"+strings.Repeat("x", 1<<16))
	require.NoError(t, err)
	list, _ := answers(t, c, 1)
	require.Equal(t, http.StatusRequestEntityTooLarge, list[0].StatusCode)
}
