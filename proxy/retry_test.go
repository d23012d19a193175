package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clients runs n loops of requests until stop is closed, and counts what was not a 200 with a whole body.
func (r *running) clients(n int, stop <-chan struct{}) (done, failed *atomic.Int64, wait func()) {
	done, failed = new(atomic.Int64), new(atomic.Int64)
	var loops sync.WaitGroup
	for range n {
		loops.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := r.client.Get(r.url)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				if err != nil || res.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				done.Add(1)
			}
		})
	}
	return done, failed, loops.Wait
}

// A backend that dies under load costs no client a GET: refused and broken connections go to another one.
func TestABackendKilledUnderLoadIsNotSeenByClients(t *testing.T) {
	victim := httptest.NewServer(says("victim"))
	p := start(t, nil, victim, backend(t, says("b")), backend(t, says("c")))
	stop := make(chan struct{})
	done, failed, wait := p.clients(8, stop)
	soon(t, "load", func() bool { return done.Load() > 500 })
	victim.CloseClientConnections()
	victim.Listener.Close()
	victim.CloseClientConnections()
	killed := done.Load()
	soon(t, "load after the kill", func() bool { return done.Load() > killed+1000 })
	close(stop)
	wait()
	require.Zero(t, failed.Load(), "of %d", done.Load())
	health := p.pool.status(time.Now())[0]
	require.Contains(t, []string{"ejected", "unhealthy"}, health.Health)
	victim.Close()
}

// halfServer accepts, reads one request whole, and closes without an answer. It counts what it read.
func halfServer(t *testing.T) (*httptest.Server, *atomic.Int64) {
	var n atomic.Int64
	return backend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n.Add(1)
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}), &n
}

// PA-14: when everything fails retries stay within a fifth of the requests and the floor.
func TestPA14RetriesStayWithinTheBudget(t *testing.T) {
	bad, seen := halfServer(t)
	worse, more := halfServer(t)
	p := start(t, nil, bad, worse)
	const requests = 300
	for range requests {
		res, _ := p.get("/")
		require.Equal(t, http.StatusBadGateway, res.StatusCode)
	}
	extra := seen.Load() + more.Load() - requests
	require.Positive(t, extra)
	require.LessOrEqual(t, extra, int64(requests/retryCost+retryFloor/retryCost))
}

func TestBudget(t *testing.T) {
	b := newBudget()
	spent := 0
	for b.spend() {
		spent++
	}
	require.Equal(t, retryFloor/retryCost, spent)
	for range 100 {
		b.earn()
	}
	for spent = 0; b.spend(); spent++ {
	}
	require.Equal(t, 100/retryCost, spent)
	for range 10 * retryMost {
		b.earn()
	}
	require.EqualValues(t, retryMost, b.credit.Load())
	for second := range int64(60) { // 5,000 requests a second
		for tick := range int64(4) {
			b.follow(5000*second + 1250*(tick+1))
		}
	}
	require.InDelta(t, 50_000, b.most.Load(), 500, "what ten seconds earn")
	for range 200 {
		b.follow(300_000)
	}
	require.LessOrEqual(t, b.most.Load(), int64(retryMost), "and less again in quiet times")
}

// What is retried is decided by whether a second try can do harm.
func TestWhatIsRetried(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, c := range map[string]struct {
		method, body string
		refused      bool // the first backend refuses the connection; else it reads the request and hangs up
		want         int
		engine       Engine
	}{
		"GET, broken":             {"GET", "", false, 200, ""},
		"HEAD, broken":            {"HEAD", "", false, 200, ""},
		"DELETE, broken":          {"DELETE", "", false, 200, ""},
		"POST, broken":            {"POST", "", false, 502, ""},
		"POST with body, broken":  {"POST", "x", false, 502, ""},
		"PUT with body, broken":   {"PUT", "x", false, 502, EngineNetHTTP}, // the body is spent; the fast lane still has it
		"PATCH, broken":           {"PATCH", "", false, 502, ""},
		"POST, refused":           {"POST", "", true, 200, ""},
		"POST with body, refused": {"POST", "x", true, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first, seen := halfServer(t)
			if c.refused {
				first = closed
			}
			var got atomic.Int64
			p := start(t, func(p *Config) { p.Engine = c.engine }, first, backend(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				if string(b) == c.body {
					got.Add(1)
				}
			}))
			bad := 0
			for range 2 { // one of the two begins at the first backend
				req, _ := http.NewRequest(c.method, p.url, strings.NewReader(c.body))
				res, err := p.client.Do(req)
				require.NoError(t, err)
				read(t, res)
				if res.StatusCode != 200 {
					require.Equal(t, c.want, res.StatusCode)
					bad++
				}
			}
			if c.want == 200 {
				require.Zero(t, bad)
			} else {
				require.Equal(t, 1, bad)
				require.EqualValues(t, 1, seen.Load(), "it was sent once")
				require.EqualValues(t, 1, got.Load())
			}
		})
	}
}

// An answer that has begun is never replaced, 5xx included.
func TestAnAnswerIsNeverRetried(t *testing.T) {
	var n atomic.Int64
	fails := func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("X-Retune-Error", "forged")
		w.WriteHeader(503)
	}
	p := start(t, nil, backend(t, fails), backend(t, fails))
	res, _ := p.get("/")
	require.Equal(t, 503, res.StatusCode)
	require.Empty(t, res.Header.Get("X-Retune-Error"), "it is the backend's own")
	require.EqualValues(t, 1, n.Load())
}

// PA-16: a connection that the backend has closed meanwhile does not cost a POST.
func TestPA16StaleConnectionsDoNotLoseAPost(t *testing.T) {
	eachEngine(t, staleConnections)
}

func staleConnections(t *testing.T, e contender) {
	ln := listenLocal(t)
	var posts atomic.Int64
	noticed := make(chan struct{}, 100) // the proxy has closed its end too
	var conns sync.WaitGroup
	conns.Go(func() { // a server that closes each connection after one answer, without saying so
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				answerOnce(c, &posts)
				noticed <- struct{}{}
			})
		}
	})
	defer conns.Wait()
	defer ln.Close()
	p := e.over(t, rarely, &httptest.Server{URL: "http://" + ln.Addr().String()})
	<-noticed // the first health check
	for range 24 {
		res, err := p.client.Post(p.url, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		read(t, res)
		require.Equal(t, 200, res.StatusCode)
		<-noticed
	}
	require.EqualValues(t, 24, posts.Load())
	require.Less(t, upstreamIdle, 5*time.Second, "shorter than common servers' own")
}

// answerOnce serves one request, ends its side, and waits until the other end has noticed.
func answerOnce(c net.Conn, posts *atomic.Int64) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	if req.Method == http.MethodPost {
		posts.Add(1)
	}
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// PA-17: under load connections to a backend are kept, not opened for each request.
func TestPA17ConnectionsAreKept(t *testing.T) {
	eachEngine(t, connectionsKept)
}

func connectionsKept(t *testing.T, e contender) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(says("a"))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	p := e.over(t, nil, s)
	stop := make(chan struct{})
	done, failed, wait := p.clients(32, stop)
	soon(t, "load", func() bool { return done.Load() > 1000 })
	close(stop)
	wait()
	require.Zero(t, failed.Load())
	require.Less(t, opened.Load(), int64(100), "of %d requests", done.Load())
}
