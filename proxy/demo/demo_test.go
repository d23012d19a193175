package demo

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := New(c)
	require.NoError(t, err)
	return s
}

// start serves s on a real socket.
func start(t *testing.T, s *Server) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		require.NoError(t, <-done)
	})
	return "http://" + l.Addr().String()
}

func call(t *testing.T, method, url, body string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

func TestAnswerNamesTheBackendAndItsServiceTime(t *testing.T) {
	base := start(t, newServer(t, Config{Name: "server-1", Mean: 2 * time.Millisecond}))
	res, body, err := call(t, "POST", base+"/x", "a body")
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "server-1", res.Header.Get(HeaderBackend))
	require.Equal(t, "2.000", res.Header.Get(HeaderServiceTime))
	require.InDelta(t, 1024, len(body), 100)
}

func TestServiceTimeHasTheMeanAndSpreadThatWereAsked(t *testing.T) {
	s := newServer(t, Config{Mean: 100 * time.Millisecond, Sigma: 0.5, Seed: 1})
	const n = 50_000
	var sum, logs, squares float64
	for range n {
		d, _, _ := s.draw()
		x := math.Log(float64(d) / 1e8)
		sum, logs, squares = sum+float64(d)/1e8, logs+x, squares+x*x
	}
	require.InDelta(t, 1, sum/n, 0.02)
	require.InDelta(t, 0.5, math.Sqrt(squares/n-logs/n*logs/n), 0.02)
}

// The same seed draws the same times, another one others.
func TestSeedRepeats(t *testing.T) {
	draw := func(seed uint64) (out []time.Duration) {
		s := newServer(t, Config{Mean: time.Second, Sigma: 0.3, Seed: seed})
		for range 5 {
			d, _, _ := s.draw()
			out = append(out, d)
		}
		return out
	}
	require.Equal(t, draw(3), draw(3))
	require.NotEqual(t, draw(3), draw(4))
}

// serveOne runs one request against the handler without a network, for virtual time.
func serveOne(ctx context.Context, s *Server) int {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	return w.Code
}

// Two slots, ten requests at once of 100 ms each, room for six to wait: two at a time, in order of arrival,
// and two refusals at once.
func TestConcurrencyAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Mean: 100 * time.Millisecond, Concurrency: 2, Queue: 6})
		start := time.Now()
		var took [10]time.Duration
		var status [10]int
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				status[i] = serveOne(t.Context(), s)
				took[i] = time.Since(start)
			})
			synctest.Wait() // so that they arrive in order
		}
		wg.Wait()
		for i := range 8 {
			require.Equal(t, 200, status[i])
			require.Equal(t, time.Duration(i/2+1)*100*time.Millisecond, took[i], "request %d", i)
		}
		require.Equal(t, []int{503, 503}, status[8:])
		require.Zero(t, took[9])
	})
}

// Without a limit all are worked on side by side.
func TestNoConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Mean: time.Second})
		start := time.Now()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { serveOne(t.Context(), s) })
		}
		wg.Wait()
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A client that goes away frees its slot or its place in the queue.
func TestClientThatGoesAwayFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Mean: time.Hour, Concurrency: 1, Queue: 1})
		working, leaveWork := context.WithCancel(t.Context())
		waiting, leaveQueue := context.WithCancel(t.Context())
		go serveOne(working, s)
		synctest.Wait()
		go serveOne(waiting, s)
		synctest.Wait()
		require.Equal(t, 503, serveOne(t.Context(), s), "slot and queue are full")

		leaveQueue()
		synctest.Wait()
		require.Zero(t, s.slots.waiting.Len())
		require.Equal(t, 1, s.slots.taken)
		leaveWork()
		synctest.Wait()
		require.Zero(t, s.slots.taken)
	})
}

// The same over a socket, with a body: net/http notices only once the body was read.
func TestClientThatGoesAwayWhilePosting(t *testing.T) {
	s := newServer(t, Config{Mean: time.Hour, Concurrency: 1})
	base := start(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", base, strings.NewReader(strings.Repeat("x", 100_000)))
	require.NoError(t, err)
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r)
		gone <- err
	}()
	taken := func() int {
		s.slots.mu.Lock()
		defer s.slots.mu.Unlock()
		return s.slots.taken
	}
	require.Eventually(t, func() bool { return taken() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Eventually(t, func() bool { return taken() == 0 }, 5*time.Second, time.Millisecond)
}

func TestErrorsHappenAtTheErrorRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Mean: time.Millisecond, Seed: 5})
		require.NoError(t, s.SetControl(Control{ErrorRate: 0.25, Slowdown: 1}))
		failed := 0
		for range 2000 {
			if serveOne(t.Context(), s) == 500 {
				failed++
			}
		}
		require.InDelta(t, 500, failed, 60)
	})
}

func TestSlowdown(t *testing.T) {
	base := start(t, newServer(t, Config{Mean: time.Millisecond}))
	_, _, err := call(t, "PUT", base+"/control", `{"slowdown": 5.5}`)
	require.NoError(t, err)
	res, _, err := call(t, "GET", base, "")
	require.NoError(t, err)
	ms, err := strconv.ParseFloat(res.Header.Get(HeaderServiceTime), 64)
	require.NoError(t, err)
	require.Equal(t, 5.5, ms)
}

func TestDownAndRevived(t *testing.T) {
	s := newServer(t, Config{Name: "server-1", Mean: time.Millisecond})
	base := start(t, s)
	_, _, err := call(t, "PUT", base+"/control", `{"down": true}`)
	require.NoError(t, err, "/control answers")
	for _, path := range []string{"/", "/healthz", "/any/thing"} {
		_, _, err = call(t, "GET", base+path, "")
		require.Error(t, err, path)
	}
	_, _, err = call(t, "PUT", base+"/control", `{"down": false}`)
	require.NoError(t, err)
	for _, path := range []string{"/", "/healthz"} {
		res, _, err := call(t, "GET", base+path, "")
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
	}
}

// A request that is being worked on dies with its backend, at once.
func TestGoingDownCutsRequestsInFlight(t *testing.T) {
	s := newServer(t, Config{Mean: time.Hour, Concurrency: 1, Queue: 1})
	base := start(t, s)
	cut := make(chan error)
	for range 2 { // one works, one waits
		go func() {
			_, err := http.Post(base, "text/plain", nil)
			cut <- err
		}()
	}
	require.Eventually(t, func() bool {
		s.slots.mu.Lock()
		defer s.slots.mu.Unlock()
		return s.slots.taken == 1 && s.slots.waiting.Len() == 1
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, s.SetControl(Control{Down: true, Slowdown: 1}))
	require.Error(t, <-cut)
	require.Error(t, <-cut)
}

// A stalled answer stays half an answer until the stall ends; health checks pass all the while.
func TestStall(t *testing.T) {
	base := start(t, newServer(t, Config{Mean: time.Millisecond}))
	_, _, err := call(t, "PUT", base+"/control", `{"stall": true}`)
	require.NoError(t, err)
	res, err := http.Get(base)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.ReadFull(res.Body, make([]byte, res.ContentLength/2))
	require.NoError(t, err)
	rest := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, res.Body)
		rest <- n
	}()
	_, _, err = call(t, "GET", base+"/healthz", "")
	require.NoError(t, err)
	select {
	case <-rest:
		t.Fatal("the rest came")
	case <-time.After(50 * time.Millisecond):
	}
	_, _, err = call(t, "PUT", base+"/control", `{"stall": false}`)
	require.NoError(t, err)
	require.Equal(t, res.ContentLength-res.ContentLength/2, <-rest)
	_, body, err := call(t, "GET", base, "")
	require.NoError(t, err)
	require.Len(t, body, int(res.ContentLength))
}

func TestControlRefusesWhatItDoesNotUnderstand(t *testing.T) {
	s := newServer(t, Config{Mean: time.Millisecond})
	base := start(t, s)
	_, _, err := call(t, "PUT", base+"/control", `{"down": false, "error_rate": 0.1, "slowdown": 3}`)
	require.NoError(t, err)
	want := Control{ErrorRate: 0.1, Slowdown: 3}
	require.Equal(t, want, s.Control())
	for body, why := range map[string]string{
		``:                               "EOF",
		`{"dwon": true}`:                 "dwon",
		`{"down": "yes"}`:                "down",
		`{"error_rate": 1.1}`:            "error_rate 1.1: want 0 to 1",
		`{"error_rate": -0.1}`:           "error_rate",
		`{"slowdown": 0}`:                "slowdown 0: want more than 0",
		`{"down": true, "slowdown": -1}`: "slowdown",
		`{"down": true} {}`:              "not one JSON object",
		`null`:                           "not one JSON object",
		`[]`:                             "reading the body",
		strings.Repeat(" ", 5000) + `{}`: "too large",
	} {
		res, answer, err := call(t, "PUT", base+"/control", body)
		require.NoError(t, err)
		require.Equal(t, 400, res.StatusCode, body)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Contains(t, answer, why)
		require.Equal(t, want, s.Control(), "nothing changed after %s", body)
	}
	_, answer, err := call(t, "GET", base+"/control", "")
	require.NoError(t, err)
	var got Control
	require.NoError(t, json.Unmarshal([]byte(answer), &got))
	require.Equal(t, want, got)
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{}, {Mean: -1}, {Mean: 2 * time.Hour}, {Mean: 1, Sigma: -1}, {Mean: 1, Sigma: math.NaN()},
		{Mean: 1, Concurrency: -1}, {Mean: 1, Queue: -1},
	} {
		_, err := New(c)
		require.Error(t, err, "%+v", c)
	}
}
