package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

// laneTo is a lane to backends with these ids, without an engine.
func laneTo(t testing.TB, ids ...string) *lane {
	m := newMeters()
	p := newPool(traffic.NewWindow(0, 10*time.Second, 6), HealthConfig{}.withDefaults(), m, slog.New(slog.DiscardHandler))
	for _, id := range ids {
		p.add(BackendConfig{ID: id, URL: &url.URL{Scheme: "http", Host: id}, Weight: 1})
	}
	p.use(balance.RoundRobin, rules.Params{})
	return &lane{choose: &chooser{p, newBudget()}, meters: m, draining: new(atomic.Bool)}
}

func peerAt(addr string, trusted bool) *peer {
	a := netip.MustParseAddr(addr)
	return &peer{a, balance.Key(a), trusted}
}

const forwarded = "X-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\n\r\n"

func TestTakeMakesTheBackendsHead(t *testing.T) {
	for name, c := range map[string]struct {
		lines   string // after "GET /a HTTP/1.1" and Host
		trusted bool
		want    string // the same of the backend's
		last    bool
	}{
		"plain":                     {"Accept: */*\r\naccept:  x \r\n", false, "Accept: */*\r\naccept:  x \r\n" + forwarded, false},
		"close":                     {"Connection: keep-alive, Close\r\nKeep-Alive: 5\r\n", false, forwarded, true},
		"nominated":                 {"A: 1\r\nConnection: a, B\r\nb: 2\r\nC: 3\r\n", false, "C: 3\r\n" + forwarded, false},
		"nominated by a later line": {"A: 1\r\nConnection: x\r\nConnection: A\r\n", false, forwarded, false},
		"the end can't be nominated": {"Connection: content-length, host, transfer-encoding\r\nContent-Length: 3\r\n", false,
			"Content-Length: 3\r\n" + forwarded, false},
		"for this hop": {"Proxy-Connection: x\r\nProxy-Authorization: x\r\nProxy-Authenticate: x\r\n", false, forwarded, false},
		"te":           {"TE: gzip\r\nTE: trailers\r\nConnection: TE\r\n", false, "Connection: TE\r\nTE: trailers\r\n" + forwarded, false},
		"chunked":      {"transfer-encoding: Chunked\r\n", false, "Transfer-Encoding: chunked\r\n" + forwarded, false},
		"forged": {"X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\n", false,
			forwarded, false},
		"believed": {"X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Host: f\r\nX-Forwarded-Proto: https\r\n", true,
			"X-Forwarded-For: 1.1.1.1, 2.2.2.2, 10.0.0.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: f\r\n\r\n", false},
		"no protocol of ours": {"X-Forwarded-Proto: gopher\r\n", true, forwarded, false},
	} {
		t.Run(name, func(t *testing.T) {
			const start = "GET /a HTTP/1.1\r\nHost: h\r\n"
			k := new(call)
			for range 2 { // calls are used again
				k.reset()
				other, fault := k.take([]byte(start+c.lines+"\r\n"), peerAt("10.0.0.9", c.trusted), laneTo(t))
				require.Nil(t, fault)
				require.False(t, other)
				require.Equal(t, start+c.want, string(k.out))
				require.Equal(t, c.last, k.last)
				require.True(t, k.whole)
			}
		})
	}
}

func TestTakeKnowsMethodsAndClients(t *testing.T) {
	l := laneTo(t)
	l.trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for method, idempotent := range map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false, "get": false} {
		k := new(call)
		_, fault := k.take([]byte(method+" / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 7.7.7.7, 9.9.9.9, 10.1.1.1\r\n\r\n"), peerAt("10.0.0.9", true), l)
		require.Nil(t, fault)
		require.Equal(t, idempotent, k.idempotent, method)
		require.Equal(t, method == "HEAD", k.toHEAD)
		require.Equal(t, balance.Key(netip.MustParseAddr("9.9.9.9")), k.key, "the first from the right that isn't trusted")
	}
}

func TestTakeSortsOut(t *testing.T) {
	for head, want := range map[string]struct {
		other  bool
		status int
	}{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n":                                           {},
		"GET / HTTP/1.0\r\n\r\n":                                                      {other: true},
		"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n":                                   {other: true},
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n":                                       {other: true},
		"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n":                               {other: true},
		"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n":                     {other: true},
		"GET / HTTP/1.1\r\n\r\n":                                                      {status: 400},
		"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n":                                {status: 400},
		"GET / HTTP/1.1\nHost: h\r\n\r\n":                                             {status: 400},
		"GET / HTTP/1.1\r\nHost: h\r\n":                                               {status: 400},
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n": {status: 400},
		"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n":                {status: 501},
		"\r\n": {status: 400},
		"":     {status: 400},
	} {
		other, fault := new(call).take([]byte(head), peerAt("10.0.0.9", false), laneTo(t))
		require.Equal(t, want.other, other, "%q", head)
		if want.status == 0 {
			require.Nil(t, fault, "%q", head)
			continue
		}
		require.NotNil(t, fault, "%q", head)
		require.Equal(t, want.status, fault.Status, "%q", head)
	}
}

func TestHeedMakesTheClientsHead(t *testing.T) {
	const dated = "Date: then\r\n"
	for name, c := range map[string]struct {
		head     string
		change   func(*call, *lane)
		want     string // "": as it is
		last     bool
		reusable bool
		failed   bool
	}{
		"plain":            {"HTTP/1.1 200 OK\r\n" + dated + "Content-Length: 1\r\n\r\n", nil, "", false, true, false},
		"failed":           {"HTTP/1.1 503 x\r\n" + dated + "Content-Length: 0\r\n\r\n", nil, "", false, true, true},
		"close":            {"HTTP/1.1 200 OK\r\n" + dated + "Connection: close\r\nContent-Length: 1\r\n\r\n", nil, "HTTP/1.1 200 OK\r\n" + dated + "Content-Length: 1\r\n\r\n", false, false, false},
		"old":              {"HTTP/1.0 200 OK\r\n" + dated + "Content-Length: 1\r\n\r\n", nil, "HTTP/1.1 200 OK\r\n" + dated + "Content-Length: 1\r\n\r\n", false, false, false},
		"until the end":    {"HTTP/1.1 200 OK\r\n" + dated + "\r\n", nil, "HTTP/1.1 200 OK\r\n" + dated + "Connection: close\r\n\r\n", true, false, false},
		"204":              {"HTTP/1.1 204 x\r\n" + dated + "\r\n", nil, "", false, true, false},
		"to HEAD":          {"HTTP/1.1 200 OK\r\n" + dated + "\r\n", func(c *call, _ *lane) { c.toHEAD = true }, "", false, true, false},
		"the client's end": {"HTTP/1.1 204 x\r\n" + dated + "\r\n", func(c *call, _ *lane) { c.last = true }, "HTTP/1.1 204 x\r\n" + dated + "Connection: close\r\n\r\n", true, true, false},
		"draining":         {"HTTP/1.1 204 x\r\n" + dated + "\r\n", func(_ *call, l *lane) { l.draining.Store(true) }, "HTTP/1.1 204 x\r\n" + dated + "Connection: close\r\n\r\n", true, true, false},
		"before the body's end": {"HTTP/1.1 413 x\r\n" + dated + "Content-Length: 0\r\n\r\n",
			func(c *call, _ *lane) { c.body = wire.BodyOf(&wire.Request{Length: 9}) }, "HTTP/1.1 413 x\r\n" + dated + "Content-Length: 0\r\nConnection: close\r\n\r\n", true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, k := laneTo(t), new(call)
			if c.change != nil {
				c.change(k, l)
			}
			edited, direct, fault := k.heed([]byte(c.head), nil, 7, l)
			require.Nil(t, fault)
			require.Equal(t, c.want == "", direct)
			require.Equal(t, c.want, string(edited))
			require.True(t, k.answered && k.started)
			require.Equal(t, c.last, k.last)
			require.Equal(t, c.reusable, k.reusable)
			require.Equal(t, c.failed, k.failed)
			require.EqualValues(t, 7, k.exchange.head)
		})
	}
}

func TestHeedBoundsInterimAnswers(t *testing.T) {
	l, k := laneTo(t), new(call)
	for range maxInterim {
		_, direct, fault := k.heed([]byte("HTTP/1.1 103 x\r\nLink: a\r\n\r\n"), nil, 1, l)
		require.Nil(t, fault)
		require.True(t, direct)
		require.False(t, k.answered)
		require.True(t, k.started, "nothing can be tried again")
	}
	_, _, fault := k.heed([]byte("HTTP/1.1 103 x\r\n\r\n"), nil, 1, l)
	require.Equal(t, wire.UnaskedAnswer, fault)
	_, _, fault = new(call).heed([]byte("HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\n"), nil, 1, l)
	require.Equal(t, wire.UnaskedAnswer, fault, "nobody asked for another protocol")
}

func TestASecondAttemptCanDoNoHarm(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*call)
		neverSent bool
		again     bool
	}{
		"idempotent":                  {func(c *call) { c.idempotent = true }, false, true},
		"not idempotent":              {func(*call) {}, false, false},
		"not idempotent, never sent":  {func(*call) {}, true, true},
		"of a third there is no word": {func(c *call) { c.idempotent, c.tries = true, 2 }, true, false},
		"its body is not whole":       {func(c *call) { c.idempotent, c.whole = true, false }, false, false},
		"the client has heard of it":  {func(c *call) { c.idempotent, c.started = true, true }, false, false},
		"there is no credit":          {func(c *call) { c.idempotent = true }, false, false},
		"there is nobody else to try": {func(c *call) { c.idempotent = true }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := laneTo(t, "a", "b")
			switch name {
			case "there is no credit":
				l.choose.budget.credit.Store(0)
			case "there is nobody else to try":
				require.NoError(t, l.choose.pool.remove("b"))
			}
			k := &call{whole: true}
			first := l.choose.pool.route.Load().pick(0)
			k.begin(first, 1)
			c.change(k)
			next := k.retry(l, 3, c.neverSent)
			require.Equal(t, c.again, next != nil)
			require.False(t, k.open, "the attempt has ended, and was counted")
			require.Zero(t, first.InFlight())
			if next != nil {
				require.NotEqual(t, first.ID(), next.ID())
			}
			k.end(4, traffic.Success)
			require.EqualValues(t, 1, first.requests.Load(), "once")
		})
	}
}

// FuzzTake: what the fast lane lets through net/http reads in the same way, as it came and as it goes on, and so it
// does the answer.
func FuzzTake(f *testing.F) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nContent-Length: 5\r\nConnection: x, close\r\nX: y\r\n\r\n",
		"POST / HTTP/1.1\r\nhost:h\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: A\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: \r\nX-Forwarded-Host: a b\r\nExpect: 100-continue\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]\r\nX_Forwarded-For: 1.1.1.1\r\nPragma: no-cache\r\n\r\n",
	} {
		f.Add([]byte(head), []byte(answer), true)
	}
	f.Add([]byte("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"), []byte("HTTP/1.0 404\r\nConnection: x\r\nX: y\r\n\r\n"), false)
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), false)
	l, c := laneTo(f), new(call)
	l.trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, head, answer []byte, trusted bool) {
		c.reset()
		if other, fault := c.take(head, peerAt("10.0.0.9", trusted), l); other || fault != nil {
			return
		}
		sameRequest(t, head, c)
		edited, direct, fault := c.heed(answer, nil, 1, l)
		if fault == nil && c.answered {
			if direct {
				edited = answer
			}
			sameAnswer(t, edited, c)
		}
	})
}

// sameRequest compares what net/http reads in a head, and in the one that the call made of it, with what the call says.
func sameRequest(t *testing.T, head []byte, c *call) {
	came, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(head), len(head)+16))
	if err == nil {
		var goes *http.Request
		if goes, err = http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(c.out), len(c.out)+16)); err != nil {
			t.Fatalf("%q became %q, which net/http can't read: %v", head, c.out, err)
		}
		require.Equal(t, came.Method, goes.Method)
		require.Equal(t, came.RequestURI, goes.RequestURI)
		require.Equal(t, came.Host, goes.Host)
		require.Equal(t, came.ContentLength, goes.ContentLength)
		require.Equal(t, came.TransferEncoding, goes.TransferEncoding)
		require.Equal(t, came.ContentLength < 0, len(came.TransferEncoding) == 1)
		require.Equal(t, linesOf(c.out), goes.Header)
		sameLength(t, c.body, goes.ContentLength)
	} else if !errors.As(err, new(*url.Error)) && !strings.Contains(err.Error(), "bad trailer key") {
		t.Fatalf("%q was let through, and net/http can't read it: %v", head, err)
	}
}

// linesOf is a head's header lines as net/http keeps them.
func linesOf(head []byte) http.Header {
	h := http.Header{}
	for _, line := range strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		h[name] = append(h[name], strings.Trim(value, " \t"))
	}
	for _, name := range []string{"Host", "Transfer-Encoding", "Trailer"} { // fields of http.Request
		delete(h, name)
	}
	if v := h["Pragma"]; len(v) > 0 && v[0] == "no-cache" && h["Cache-Control"] == nil {
		h["Cache-Control"] = []string{"no-cache"}
	}
	return h
}

// sameLength compares a body's end with net/http's length of it; -1: it is chunked.
func sameLength(t *testing.T, b wire.Body, n int64) {
	switch {
	case n < 0:
		_, fault := b.Feed([]byte("0\r\n\r\n"))
		require.Nil(t, fault)
		require.True(t, b.Done())
	case n < 1<<16:
		fed, fault := b.Feed(make([]byte, n+1))
		require.Nil(t, fault)
		require.EqualValues(t, n, fed)
		require.True(t, b.Done())
	}
}

// sameAnswer compares what net/http reads in the head of an answer with what the call says.
func sameAnswer(t *testing.T, head []byte, c *call) {
	method := http.MethodGet
	if c.toHEAD {
		method = http.MethodHead
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(head), len(head)+16), &http.Request{Method: method})
	if err != nil {
		if strings.Contains(err.Error(), "bad trailer key") {
			return
		}
		t.Fatalf("%q goes to the client, and net/http can't read it: %v", head, err)
	}
	require.Equal(t, c.failed, res.StatusCode >= 500)
	require.Equal(t, c.last, res.Close)
	switch _, err := io.ReadAll(res.Body); {
	case c.answer.Done():
		require.NoError(t, err, "%q has no body", head)
	case c.answer.EndsWithConnection():
		require.EqualValues(t, -1, res.ContentLength)
		require.Empty(t, res.TransferEncoding)
	default:
		require.Error(t, err, "%q has a body", head)
		sameLength(t, c.answer, res.ContentLength)
	}
}

// BenchmarkHeads is what the heads of one plain request and its answer cost on the fast lane.
func BenchmarkHeads(b *testing.B) {
	l := &lane{draining: new(atomic.Bool)}
	p := &peer{addr: netip.MustParseAddr("192.0.2.7")}
	request := []byte("GET /api/v1/items?id=42 HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: k6/1.0 (https://k6.io/)\r\n" +
		"Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nX-Request-Id: 0123456789abcdef\r\n\r\n")
	answer := []byte("HTTP/1.1 200 OK\r\nServer: b\r\nDate: Mon, 30 Nov 2026 06:00:00 GMT\r\nContent-Type: application/json\r\n" +
		"Cache-Control: no-store\r\nContent-Length: 1024\r\n\r\n")
	c := new(call)
	b.ReportAllocs()
	for b.Loop() {
		c.reset()
		if _, fault := c.take(request, p, l); fault != nil {
			b.Fatal(fault)
		}
		if _, direct, fault := c.heed(answer, nil, 1, l); fault != nil || !direct {
			b.Fatal(direct, fault)
		}
	}
}
