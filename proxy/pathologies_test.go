package proxy

import (
	"context"
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

	"retune/proxy/balance"
	"retune/proxy/steering"
)

// Known pathologies of load balancers as they show on real sockets, each under the number that it has in our notes,
// for every algorithm that it concerns. What is the picker's alone stands in proxy/balance, what is the health checks'
// alone in health_test.go.

// underEach runs a test per algorithm, on a proxy that is fixed to it.
func underEach(t *testing.T, algorithms []balance.Algorithm, change func(*Config), servers func(t *testing.T) []*httptest.Server, test func(t *testing.T, p *running)) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			p := start(t, change, servers(t)...)
			p.fix(a)
			test(t, p)
		})
	}
}

func (r *running) fix(a balance.Algorithm) {
	r.t.Helper()
	r.must(200, nil, "PUT", "/alb/mode", fmt.Sprintf(`{"mode":"fixed","algorithm":%q}`, a))
}

// rarely keeps active checks out of a test of the passive one.
func rarely(c *Config) { c.Health.Interval = time.Hour }

// seen is what clients got.
type seen struct {
	mu     sync.Mutex
	status map[int]int
	body   map[string]int
}

// crowd sends n requests, a few at once, each from a client of its own.
func (r *running) crowd(n, atOnce int) *seen {
	r.t.Helper()
	s := &seen{status: map[int]int{}, body: map[string]int{}}
	var next atomic.Int64
	var clients sync.WaitGroup
	for range atOnce {
		clients.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				status, body := r.from(r.t.Context(), fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
				s.mu.Lock()
				s.status[status]++
				s.body[body]++
				s.mu.Unlock()
			}
		})
	}
	clients.Wait()
	return s
}

// from makes a GET as a client behind a trusted peer; status 0 is an answer that broke.
func (r *running) from(ctx context.Context, client string) (status int, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("X-Forwarded-For", client)
	res, err := r.client.Do(req)
	if err != nil {
		return 0, "broken"
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "broken"
	}
	return res.StatusCode, string(b)
}

func (r *running) statusOf(id string) steering.BackendStatus {
	r.t.Helper()
	for _, b := range r.pool.status(time.Now()) {
		if b.ID == id {
			return b
		}
	}
	r.t.Fatalf("no backend %s", id)
	return steering.BackendStatus{}
}

// takes answers after a while: a backend that is no faster than one that fails.
func takes(d time.Duration, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			fmt.Fprint(w, name)
		case <-r.Context().Done():
		}
	}
}

func refused(t *testing.T) *httptest.Server {
	t.Helper()
	// A connection keeps its own port from everybody who wants to listen; a closed listener's is soon another's.
	ln := listenLocal(t)
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Close(), ln.Close() })
	return &httptest.Server{URL: "http://" + c.LocalAddr().String()}
}

// atMost is how many requests in a row a backend can fail before it is out, with some in flight at that moment, and
// another round for a machine so slow that an ejection ends meanwhile.
const atMost = 2 * (5 + 8)

// PA-1: one of four answers 500 at once. A quarter of the requests would be its fair share.
func TestPA01FastFailureDoesNotAttract(t *testing.T) {
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) []*httptest.Server {
		return []*httptest.Server{
			backend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }),
			backend(t, takes(5*time.Millisecond, "b")), backend(t, takes(5*time.Millisecond, "c")), backend(t, takes(5*time.Millisecond, "d")),
		}
	}, func(t *testing.T, p *running) {
		s := p.crowd(400, 8)
		require.Equal(t, 400, s.status[200]+s.status[500])
		require.LessOrEqual(t, s.status[500], atMost)
	})
}

// PA-2: one of four refuses connections from the beginning. Nobody sees it, and it is hardly asked.
func TestPA02RefusedFromTheStartIsNotTheFastest(t *testing.T) {
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) []*httptest.Server {
		return []*httptest.Server{
			refused(t), backend(t, takes(5*time.Millisecond, "b")), backend(t, takes(5*time.Millisecond, "c")), backend(t, takes(5*time.Millisecond, "d")),
		}
	}, func(t *testing.T, p *running) {
		s := p.crowd(400, 8)
		require.Equal(t, map[int]int{200: 400}, s.status)
		require.LessOrEqual(t, p.statusOf("a").Requests, uint64(atMost))
	})
}

// PA-5: 200 requests at one moment, before any answer, spread over all backends.
func TestPA05BurstDoesNotHerd(t *testing.T) {
	var leave chan struct{}
	holds := func(w http.ResponseWriter, _ *http.Request) { <-leave }
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) []*httptest.Server {
		leave = make(chan struct{})
		return []*httptest.Server{backend(t, holds), backend(t, holds), backend(t, holds), backend(t, holds)}
	}, func(t *testing.T, p *running) {
		done := make(chan *seen)
		go func() { done <- p.crowd(200, 200) }()
		soon(t, "all are waiting", func() bool { return p.pool.inFlight() == 200 })
		for _, b := range p.pool.status(time.Now()) {
			require.InDelta(t, 50, b.InFlight, 25, b.ID)
		}
		close(leave)
		require.Equal(t, 200, (<-done).status[200])
	})
}

// PA-9: 5:1:1, and the first is gone: the other two share evenly what it had.
func TestPA09WeightsAreSharedAnewWithoutOne(t *testing.T) {
	weighted := []balance.Algorithm{balance.WeightedRoundRobin, balance.WeightedLeastConnections}
	underEach(t, weighted, func(c *Config) {
		rarely(c)
		c.Backends[0].Weight = 5
	}, func(t *testing.T) []*httptest.Server {
		return []*httptest.Server{refused(t), backend(t, says("b")), backend(t, says("c"))}
	}, func(t *testing.T, p *running) {
		p.pool.eject(p.pool.servers[0], "a test", time.Now().Add(time.Hour)) // for an hour and more
		s := p.crowd(300, 1)
		require.Equal(t, map[int]int{200: 300}, s.status)
		require.InDelta(t, 150, s.body["b"], 50)
		require.Zero(t, p.statusOf("a").Requests)
	})
}

// PA-12: every backend refuses. Requests go on being tried, and are served as soon as one can.
func TestPA12AllRefusing(t *testing.T) {
	var addrs []string
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) (list []*httptest.Server) {
		addrs = nil
		for range 3 {
			s := httptest.NewServer(nil)
			s.Close() // its address is listened on again below
			list, addrs = append(list, s), append(addrs, s.Listener.Addr().String())
		}
		return list
	}, func(t *testing.T, p *running) {
		s := p.crowd(100, 4)
		require.Equal(t, map[int]int{502: 100}, s.status, "the backends' fault, not want of backends")
		for _, addr := range addrs {
			ln, err := net.Listen("tcp", addr)
			require.NoError(t, err)
			revived := &http.Server{Handler: says("back")}
			go func() { _ = revived.Serve(ln) }()
			defer revived.Close()
		}
		require.Equal(t, map[int]int{200: 100}, p.crowd(100, 4).status)
	})
}

// PA-13: a reload and a switch keep ejections, requests in flight and what was learned.
func TestPA13ReloadAndSwitchForgetNothing(t *testing.T) {
	leave := make(chan struct{})
	holds := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("X-Forwarded-For"), "9.9.9.9") {
			<-leave
		}
	}
	p := start(t, rarely, refused(t), backend(t, holds), backend(t, holds))
	release := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(release) // else a failure would wait for the held one
	p.crowd(60, 1)
	held := make(chan int, 1)
	go func() {
		status, _ := p.from(t.Context(), "9.9.9.9")
		held <- status
	}()
	soon(t, "one is held", func() bool { return p.pool.inFlight() == 1 })
	before := p.pool.status(time.Now())
	require.Equal(t, "ejected", before[0].Health, before[0].Why)
	require.Positive(t, before[1].AvgLatencyMS)
	for i, a := range balance.Algorithms() {
		p.must(200, nil, "PUT", "/alb/mode", `{"mode":"adaptive"}`)
		p.must(200, nil, "POST", "/alb/rules/reload", ruleText(2+i, a), "Retune-Trial: true")
		p.fix(a)
		for j, b := range p.pool.status(time.Now()) {
			require.Equal(t, before[j].InFlight, b.InFlight, a)
			require.InDelta(t, before[j].AvgLatencyMS, b.AvgLatencyMS, 0, a)
			require.Equal(t, before[j].Requests, b.Requests, a)
			require.Equal(t, j == 0, b.Health != "healthy", a)
		}
	}
	release()
	require.Equal(t, 200, <-held)
}

// PA-14: whoever fails, the second try goes elsewhere, also where the client's hash names the failing one again.
func TestPA14RetryGoesElsewhere(t *testing.T) {
	var seen *atomic.Int64 // by the failing one
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) []*httptest.Server {
		var bad *httptest.Server
		bad, seen = halfServer(t)
		return []*httptest.Server{bad, backend(t, says("good"))}
	}, func(t *testing.T, p *running) {
		for i := 0; seen.Load() == 0; i++ {
			status, body := p.from(t.Context(), fmt.Sprintf("10.0.0.%d", i))
			require.Equal(t, 200, status)
			require.Equal(t, "good", body)
			if seen.Load() > 0 { // the same client again, fewer times than eject the failing one
				for range 3 {
					_, body = p.from(t.Context(), fmt.Sprintf("10.0.0.%d", i))
					require.Equal(t, "good", body)
				}
			}
		}
		require.EqualValues(t, seen.Load(), p.statusOf("a").Errors, "each is the failing one's")
		require.Zero(t, p.statusOf("b").Errors)
	})
}

// PA-15: clients that go away – before an answer, within one, within their own body – are nobody's failure: nothing
// is ejected, no error counted, nothing in flight, and whom they left is not taken for fast.
func TestPA15ClientsThatLeaveAreNobodysFailure(t *testing.T) {
	leaves := map[string]func(t *testing.T, p *running){
		"before the answer": func(t *testing.T, p *running) {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				for p.pool.inFlight() == 0 {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			status, _ := p.from(ctx, "10.0.0.1")
			require.Zero(t, status)
		},
		"within the answer": func(t *testing.T, p *running) {
			c := p.dial()
			fmt.Fprint(c, "GET /begun HTTP/1.1\r\nHost: x\r\n\r\n")
			_, err := io.ReadFull(c, make([]byte, 20))
			require.NoError(t, err)
			c.Close()
		},
		"within its own body": func(t *testing.T, p *running) {
			c := p.dial()
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it")
			soon(t, "on its way", func() bool { return p.pool.inFlight() == 1 })
			c.Close()
		},
	}
	hangs := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			fmt.Fprint(w, strings.Repeat("x", 4096))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	underEach(t, balance.Algorithms(), rarely, func(t *testing.T) []*httptest.Server {
		return []*httptest.Server{backend(t, hangs), backend(t, hangs)}
	}, func(t *testing.T, p *running) {
		for name, leave := range leaves {
			for range 12 {
				leave(t, p)
				soon(t, "nothing in flight", func() bool { return p.pool.inFlight() == 0 })
			}
			for _, b := range p.pool.status(time.Now()) {
				require.Equal(t, "healthy", b.Health, name)
				require.Zero(t, b.Errors, name)
				require.Zero(t, b.AvgLatencyMS, "nothing was answered: %s", name)
			}
		}
		snap := p.control.window.Snapshot(balance.Now()+int64(time.Second), time.Now(), p.pool.live())
		require.Zero(t, snap.ErrorRate)
	})
}

// PA-18: behind a trusted peer each client has its place; what anybody else writes into X-Forwarded-For is not believed.
func TestPA18ForwardedAddressesCountFromTrustedPeersOnly(t *testing.T) {
	hashes := []balance.Algorithm{balance.IPHash, balance.ConsistentHash}
	four := func(t *testing.T) []*httptest.Server {
		return []*httptest.Server{backend(t, says("a")), backend(t, says("b")), backend(t, says("c")), backend(t, says("d"))}
	}
	underEach(t, hashes, nil, four, func(t *testing.T, p *running) {
		require.Len(t, p.crowd(200, 4).body, 4, "200 clients spread")
		for i := range 20 {
			client := fmt.Sprintf("2001:db8::%d", i)
			_, first := p.from(t.Context(), client)
			_, again := p.from(t.Context(), client)
			require.Equal(t, first, again, "%s keeps its backend", client)
		}
	})
	underEach(t, hashes, func(c *Config) { c.Trusted = nil }, four, func(t *testing.T, p *running) {
		require.Len(t, p.crowd(50, 4).body, 1, "one peer is one client")
	})
}

// PA-21: going through all algorithms under load, back and forth, costs no request and leaves nothing in flight.
func TestPA21ASwitchCostsNoRequest(t *testing.T) {
	p := start(t, nil, backend(t, says("a")), backend(t, says("b")), backend(t, says("c")))
	stop := make(chan struct{})
	done, failed, wait := p.clients(4, stop)
	for _, from := range balance.Algorithms() {
		for _, to := range balance.Algorithms() {
			before := done.Load()
			p.fix(from)
			p.fix(to)
			soon(t, "requests", func() bool { return done.Load() > before })
		}
	}
	close(stop)
	wait()
	require.Zero(t, failed.Load(), "of %d", done.Load())
	soon(t, "nothing in flight", func() bool { return p.pool.inFlight() == 0 })
	for _, b := range p.pool.status(time.Now()) {
		require.Positive(t, b.Requests, b.ID)
	}
}
