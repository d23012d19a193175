package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/coder/websocket"

	"retune/proxy/demo"
)

// The soak's clients and its backends. Every request has a name, which the answer repeats in its head and in each line
// of its body, so that an answer that is short, long or somebody else's is noticed.

const headerID = "X-Id"

// soakBody is what the answer to a request has to hold.
func soakBody(id string, size int) []byte {
	return bytes.Repeat([]byte(id+"\n"), size/(len(id)+1)+1)[:size]
}

// serveSoak is a backend of the soak: it answers as it is asked to, gives bodies back, and echoes over WebSockets.
func serveSoak(addr string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		number := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
		time.Sleep(time.Duration(number("ms")) * time.Millisecond)
		id, pieces := r.Header.Get(headerID), max(1, number("pieces"))
		if len(body) == 0 {
			body = soakBody(id, number("size"))
		}
		w.Header().Set(demo.HeaderBackend, addr)
		w.Header().Set(headerID, id)
		if pieces == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		for i := range pieces {
			_, _ = w.Write(body[i*len(body)/pieces : (i+1)*len(body)/pieces])
			if pieces > 1 {
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	return (&http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
}

// errWrong is what no fault of a backend explains.
var errWrong = errors.New("wrong")

// soakAnswer is one request as its client saw it.
type soakAnswer struct {
	n        int64
	id       string
	kind     string
	due, end time.Time
	status   int
	cause    string // what the proxy says of an answer of its own
	err      error
	aborted  bool // by the client
}

func (a *soakAnswer) ok() bool { return a.aborted || a.err == nil && a.status == http.StatusOK }

func (a *soakAnswer) String() string {
	return fmt.Sprintf("%s %s, due %s, over after %s: status %d, %q, %v",
		a.kind, a.id, a.due.Format("15:04:05.000"), a.end.Sub(a.due).Round(time.Millisecond), a.status, a.cause, a.err)
}

// soakKinds are what clients do, each with its share of a hundred requests.
var soakKinds = []struct {
	name  string
	share int
	ask   func(*soakLoad, *soakAnswer)
}{
	{"GET", 52, get("/?size=1024&ms=2", 1024, nil)},
	{"GET of 256 KiB", 5, get("/?size=262144", 256<<10, nil)},
	{"GET in chunks", 6, get("/?size=20000&pieces=4", 20000, nil)},
	{"GET on a new connection", 6, get("/?size=1024", 1024, func(r *http.Request) { r.Close = true })},
	{"HEAD", 5, get("/?size=1024", 0, func(r *http.Request) { r.Method = http.MethodHead })},
	{"POST", 12, post(16<<10, nil)},
	{"POST in chunks", 5, post(48<<10, func(r *http.Request) { r.ContentLength = -1 })},
	{"POST that expects 100", 3, post(4<<10, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })},
	{"GET given up", 2, giveUp("/?size=1024&ms=30")},
	{"GET given up in its body", 2, giveUp("/?size=4194304")},
	{"HTTP/1.0", 1, (*soakLoad).old},
	{"WebSocket", 1, (*soakLoad).echo},
}

// soakLoad puts load on the proxy and keeps the books.
type soakLoad struct {
	addr     string
	client   *http.Client
	named    atomic.Int64
	inFlight atomic.Int64
	trouble  atomic.Bool   // a backend is not well
	lag      time.Duration // of an open load: how late a request began, at most

	mu      sync.Mutex // guards what follows
	ended   int
	aborted int
	byKind  map[string]int
	failed  []soakAnswer
	latency *hdrhistogram.Histogram // of good answers, from when they were due, in µs
	calm    *hdrhistogram.Histogram // of those without trouble
}

func newSoakLoad(addr string) *soakLoad {
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Minute.Microseconds(), 3) }
	return &soakLoad{
		addr: addr, byKind: map[string]int{}, latency: histogram(), calm: histogram(),
		client: &http.Client{Timeout: patience, Transport: &http.Transport{
			MaxIdleConnsPerHost: 4096, DisableCompression: true, ExpectContinueTimeout: patience,
			IdleConnTimeout: 30 * time.Second, // before the proxy ends it
		}},
	}
}

// next makes one request, of the kind that its number says.
func (l *soakLoad) next(due time.Time) {
	n := l.named.Add(1)
	a := soakAnswer{n: n, id: "r" + strconv.FormatInt(n, 10), due: due}
	l.inFlight.Add(1)
	calm := !l.trouble.Load()
	at := int(n * 37 % 100) // 37 has no divisor of a hundred: all kinds come, in turn
	for _, k := range soakKinds {
		if at -= k.share; at < 0 {
			a.kind = k.name
			k.ask(l, &a)
			break
		}
	}
	a.end = time.Now()
	l.inFlight.Add(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	l.byKind[a.kind]++
	switch {
	case a.aborted:
		l.aborted++
	case a.ok():
		took := max(1, a.end.Sub(due).Microseconds())
		_ = l.latency.RecordValue(took)
		if calm && !l.trouble.Load() {
			_ = l.calm.RecordValue(took)
		}
	default:
		l.failed = append(l.failed, a)
	}
}

// open makes rate requests a second until ctx ends, each when it is due, whatever became of those before. It waits for
// the answers.
func (l *soakLoad) open(ctx context.Context, rate int) {
	var under sync.WaitGroup
	defer under.Wait()
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		l.lag = max(l.lag, time.Since(due))
		under.Go(func() { l.next(due) })
	}
}

// saturate makes requests one after another in many clients, and returns how many a second were answered.
func (l *soakLoad) saturate(d time.Duration) int {
	const clients = 96
	var under sync.WaitGroup
	began := time.Now()
	for range clients {
		under.Go(func() {
			for time.Since(began) < d {
				l.next(time.Now())
			}
		})
	}
	under.Wait()
	return int(float64(l.ended) / time.Since(began).Seconds())
}

// request makes a request and checks its answer.
func (l *soakLoad) request(a *soakAnswer, r *http.Request, body []byte) {
	conns := 0
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { conns++ }}))
	r.Header.Set(headerID, a.id)
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", a.n>>8&255, a.n&255))
	res, err := l.client.Do(r)
	if err == nil {
		defer res.Body.Close()
		l.check(a, res, body)
	} else {
		a.err = err
	}
	if conns > 1 && a.err == nil { // net/http would hide it
		a.err = fmt.Errorf("%w: the connection ended without an answer, and net/http tried again", errWrong)
	}
}

// check compares an answer with what it has to be.
func (l *soakLoad) check(a *soakAnswer, res *http.Response, body []byte) {
	a.status, a.cause = res.StatusCode, res.Header.Get("X-Retune-Error")
	got, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		a.err = fmt.Errorf("the body broke off after %d bytes: %w", len(got), err)
	case a.status != http.StatusOK:
	case res.Header.Get(headerID) != a.id:
		a.err = fmt.Errorf("%w: an answer to %q", errWrong, res.Header.Get(headerID))
	case !bytes.Equal(got, body):
		a.err = fmt.Errorf("%w: another body, of %d bytes instead of %d: %.40q", errWrong, len(got), len(body), got)
	}
}

func get(path string, size int, change func(*http.Request)) func(*soakLoad, *soakAnswer) {
	return func(l *soakLoad, a *soakAnswer) {
		r, _ := http.NewRequest(http.MethodGet, "http://"+l.addr+path, nil)
		if change != nil {
			change(r)
		}
		l.request(a, r, soakBody(a.id, size))
	}
}

func post(size int, change func(*http.Request)) func(*soakLoad, *soakAnswer) {
	return func(l *soakLoad, a *soakAnswer) {
		body := soakBody(a.id, size)
		r, _ := http.NewRequest(http.MethodPost, "http://"+l.addr+"/?ms=2", bytes.NewReader(body))
		if change != nil {
			change(r)
		}
		l.request(a, r, body)
	}
}

// giveUp ends its connection before it has the whole answer.
func giveUp(path string) func(*soakLoad, *soakAnswer) {
	return func(l *soakLoad, a *soakAnswer) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer time.AfterFunc(10*time.Millisecond, cancel).Stop()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr+path, nil)
		r.Header.Set(headerID, a.id)
		res, err := l.client.Do(r)
		if err == nil {
			defer res.Body.Close()
			a.status, a.cause = res.StatusCode, res.Header.Get("X-Retune-Error")
			_, err = io.CopyN(io.Discard, res.Body, 100<<10)
		}
		a.err = err
		a.aborted = a.status == http.StatusOK && err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) && a.status == http.StatusOK
	}
}

// old asks as HTTP/1.0 does.
func (l *soakLoad) old(a *soakAnswer) {
	c, err := net.DialTimeout("tcp", l.addr, patience)
	if err != nil {
		a.err = err
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "GET /?size=5000 HTTP/1.0\r\nHost: soak\r\n%s: %s\r\n\r\n", headerID, a.id)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		a.err = err
		return
	}
	defer res.Body.Close()
	l.check(a, res, soakBody(a.id, 5000))
}

// echo sends messages over a WebSocket and waits for each to come back.
func (l *soakLoad) echo(a *soakAnswer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, res, err := websocket.Dial(ctx, "ws://"+l.addr+"/echo", &websocket.DialOptions{HTTPClient: l.client})
	if err != nil {
		if a.err = err; res != nil {
			a.status, a.cause, a.err = res.StatusCode, res.Header.Get("X-Retune-Error"), nil
		}
		return
	}
	defer c.CloseNow()
	a.status = http.StatusOK
	for _, size := range []int{10, 1000, 30000} {
		message := soakBody(a.id, size)
		if a.err = c.Write(ctx, websocket.MessageBinary, message); a.err != nil {
			return
		}
		_, got, err := c.Read(ctx)
		if a.err = err; err == nil && !bytes.Equal(got, message) {
			a.err = fmt.Errorf("%w: another message: %.40q", errWrong, got)
		}
		if a.err != nil {
			return
		}
	}
	a.err = c.Close(websocket.StatusNormalClosure, "")
}

// summary says what was asked, and how long good answers took.
func (l *soakLoad) summary(took time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "requests             %d, %.0f/s, %d given up by their clients\n", l.ended, float64(l.ended)/took.Seconds(), l.aborted)
	for _, k := range soakKinds {
		fmt.Fprintf(&s, "  %-26s %d\n", k.name, l.byKind[k.name])
	}
	for _, of := range []struct {
		what string
		h    *hdrhistogram.Histogram
	}{{"latency", l.latency}, {"  without trouble", l.calm}} {
		ms := func(q float64) float64 { return float64(of.h.ValueAtQuantile(q)) / 1000 }
		fmt.Fprintf(&s, "%-20s p50 %.1f ms, p99 %.1f ms, at most %.0f ms\n", of.what, ms(50), ms(99), ms(100))
	}
	return s.String()
}
