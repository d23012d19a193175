package proxy

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
)

var (
	tortureFor  = flag.Duration("torture", 6*time.Second, "how long TestTorture goes on, all engines together")
	tortureSeed = flag.Uint64("torture.seed", 0, "repeats the choices of a run of TestTorture; 0: new ones")
)

// TestTorture sets clients and backends that do whatever they can on each other, through a proxy that is reloaded and
// whose backends come and go meanwhile. Whatever happens:
//
//	no answer, and no byte of one, reaches a request that it does not belong to
//	what both sides did soundly succeeds; what is not idempotent reaches no backend twice
//	every connection ends within its timeouts: by an answer, or by a break that can be seen
//	in the end nothing is in flight, everything is counted, no descriptor is left, and the proxy serves
func TestTorture(t *testing.T) {
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-torture.seed=%d", seed)
	for _, e := range contenders {
		t.Run(strings.ReplaceAll(string(e.Engine), "/", "-"), func(t *testing.T) {
			torment(t, e, seed, *tortureFor/time.Duration(len(contenders)))
		})
	}
}

const (
	tormentors = 24
	mostBody   = 300 << 10
)

// torture is one run against one engine.
type torture struct {
	contender
	t    *testing.T
	p    *running
	seed uint64
	end  context.Context
	stop context.CancelFunc

	ids  atomic.Uint64
	done [3]atomic.Uint64 // requests by how they ended: whole, refused by the proxy, broken off

	mu   sync.Mutex
	seen map[uint64]int     // guarded by mu: how often a request that isn't idempotent has come to a backend
	all  map[*server]string // guarded by mu: every backend that there was
	odd  map[string]int     // guarded by mu: own answers by cause
}

func torment(t *testing.T, e contender, seed uint64, d time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	w := &torture{contender: e, t: t, seed: seed, end: ctx, stop: stop, seen: map[uint64]int{}, all: map[*server]string{}, odd: map[string]int{}}
	var backends []*rawServer
	for range 4 {
		backends = append(backends, rawBackend(t, w.serve))
	}
	files := descriptors(t)
	w.p = e.start(t, func(c *Config) {
		c.HeadTimeout, c.IdleTimeout, c.RequestTimeout, c.DrainTimeout = 3*time.Second, 3*time.Second, 3*time.Second, 5*time.Second
		c.Health.Ejection, c.Health.SlowStart = 100*time.Millisecond, 100*time.Millisecond
	}, backends...)
	var g sync.WaitGroup
	for i := range tormentors {
		g.Go(func() {
			for r := rand.New(rand.NewPCG(seed, uint64(i))); ctx.Err() == nil; {
				w.session(r)
			}
		})
	}
	g.Go(w.unrest)
	g.Wait()
	t.Logf("%d requests: %d whole, %d answered by the proxy %v, %d broken off", w.ids.Load(), w.done[0].Load(), w.done[1].Load(), w.odd, w.done[2].Load())
	w.settled()
	require.NoError(t, w.p.stop())
	soon(t, "the descriptors are closed", func() bool { return descriptors(t) <= files })
}

// unrest reloads rules, switches algorithms, and lets backends drain, leave and come.
func (w *torture) unrest() {
	r := rand.New(rand.NewPCG(w.seed, 1<<32))
	w.p.pool.mu.Lock()
	servers := append([]*server(nil), w.p.pool.servers...)
	w.p.pool.mu.Unlock()
	for version := 2; w.end.Err() == nil; version++ {
		s := servers[1+r.IntN(len(servers)-1)] // the first one stays
		c := BackendConfig{ID: s.ID(), URL: s.URL(), Weight: 1 + r.IntN(3)}
		switch r.IntN(4) {
		case 0:
			text := ruleText(version, balance.Algorithms()[r.IntN(len(balance.Algorithms()))])
			w.p.must(200, nil, "POST", "/alb/rules/reload", text)
		case 1:
			_ = w.p.pool.remove(s.ID())
		default:
			_, err := w.p.pool.put(c.ID, exactly(c, r.IntN(3) == 0), time.Now())
			require.NoError(w.t, err)
		}
		w.remember()
		select {
		case <-w.end.Done():
		case <-time.After(time.Duration(r.IntN(40)) * time.Millisecond):
		}
	}
}

// remember keeps the backends that there are, since those that are removed must come to rest as well.
func (w *torture) remember() {
	w.p.pool.mu.Lock()
	defer w.p.pool.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.p.pool.servers {
		w.all[s] = s.ID()
	}
}

// settled holds when everything has ended.
func (w *torture) settled() {
	w.remember()
	soon(w.t, "nothing is in flight", func() bool {
		for s := range w.all {
			if s.InFlight() != 0 {
				return false
			}
		}
		return true
	})
	first := w.p.pool.servers[0] // never removed, so its counters are those of the whole run
	selected, requests := w.counted("backend_selection_total", first.ID()), w.counted("requests_total", first.ID())
	require.Equal(w.t, selected, requests, "every attempt that began has ended")
	require.EqualValues(w.t, requests, first.requests.Load())
	for id, n := range w.seen {
		require.LessOrEqual(w.t, n, 1, "request %d came to backends more than once", id)
	}
	r := rand.New(rand.NewPCG(w.seed, 1<<33))
	w.ask(r, plan{id: w.ids.Add(1), method: "GET", kind: "length", n: 10, up: -1})
}

// fail says what went wrong, and ends the run.
func (w *torture) fail(p plan, format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s %+v: %s", time.Now().Format("05.000"), p, fmt.Sprintf(format, args...))
	w.stop()
}

// plan is one request with what its backend is to do. It travels in the request.
type plan struct {
	id         uint64
	method     string
	up         int  // bytes of its body; -1: none
	chunked    bool // its body is
	expect     bool // 100 Continue
	old        bool // HTTP/1.0
	upgrade    bool
	kind       string
	n          int // bytes of the answer's body
	pace       int // a pause at one in so many pieces; 0: none
	interim    int
	idempotent bool
}

// The kinds of answers. Sound ones give the request what it asks for.
var (
	soundKinds = []string{"length", "length", "length", "chunked", "chunked", "204", "304", "500", "close", "old", "bye", "leave", "extra"}
	otherKinds = []string{"early", "reset0", "reset1", "reset2", "cut0", "cut1", "cut2", "garbage", "hang", "stall"}
)

func (p *plan) sound() bool {
	for _, k := range soundKinds {
		if p.kind == k {
			return true
		}
	}
	return false
}

func (w *torture) plan(r *rand.Rand, sound bool) plan {
	p := plan{id: w.ids.Add(1), up: -1, kind: soundKinds[r.IntN(len(soundKinds))], n: size(r), idempotent: true}
	if !sound && r.IntN(3) == 0 {
		p.kind = otherKinds[r.IntN(len(otherKinds))]
		if (p.kind == "hang" || p.kind == "stall") && r.IntN(10) > 0 { // they take time
			p.kind = "length"
		}
	}
	p.method = []string{"GET", "GET", "HEAD", "PUT", "POST", "POST", "DELETE"}[r.IntN(7)]
	if p.method == "PUT" || p.method == "POST" {
		p.up, p.chunked, p.expect = size(r), r.IntN(2) == 0, r.IntN(5) == 0
	}
	p.idempotent = p.method != "POST"
	if p.pace = []int{0, 0, 0, 3, 20}[r.IntN(5)]; p.kind == "extra" {
		p.n, p.pace = p.n%5000, 0 // what comes later is read as the next answer, wherever it comes from
	}
	if r.IntN(6) == 0 {
		p.interim = 1 + r.IntN(3)
	}
	return p
}

// size is small most of the time.
func size(r *rand.Rand) int {
	return []int{0, 1, r.IntN(100), r.IntN(100), r.IntN(5000), r.IntN(5000), 65536 - r.IntN(200), r.IntN(mostBody)}[r.IntN(8)]
}

func (p *plan) header() string {
	return fmt.Sprintf("X-Id: %d\r\nX-Plan: %s %d %d %d %d\r\n", p.id, p.kind, p.n, p.pace, p.interim, p.up)
}

func planOf(m message) (p plan, err error) {
	p.method, _, _ = strings.Cut(m.start(), " ")
	_, err = fmt.Sscanf(m.get("X-Id")+" "+m.get("X-Plan"), "%d %s %d %d %d %d", &p.id, &p.kind, &p.n, &p.pace, &p.interim, &p.up)
	p.idempotent = p.method != "POST"
	return p, err
}

// noise is what bodies are cut from: each request's elsewhere.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	for r, i := rand.New(rand.NewPCG(1, 2)), 0; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}()

// body is what a request has to send, or its answer.
func body(id uint64, up bool, n int) string {
	if up {
		id ^= 0xffff
	}
	from := int(id * 2654435761 % uint64(len(noise)-mostBody))
	return string(noise[from : from+n])
}

// framed frames a body, in pieces of any size.
func framed(r *rand.Rand, b string) string {
	var out bytes.Buffer
	for b != "" {
		n := 1 + r.IntN(len(b))
		fmt.Fprintf(&out, "%x%s\r\n%s\r\n", n, []string{"", ";a=b", ";c=\"d\""}[r.IntN(3)], b[:n])
		b = b[n:]
	}
	out.WriteString("0\r\n" + []string{"", "", "X-Trailer: t\r\n"}[r.IntN(3)] + "\r\n")
	return out.String()
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}
