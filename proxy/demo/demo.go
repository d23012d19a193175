// Package demo is a backend whose speed, concurrency and health a scenario can turn: what the proxy balances
// over in tests, benchmarks and the demo.
//
//	request ─► down? ─► queue (first come, first served) ─► slot: sleep for the service time ─► error? ─► answer
//	             └ connection closed      └ full: 503                                                 └ stalled: half of it
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Headers of each answer.
const (
	HeaderBackend     = "X-Backend"         // the backend's name
	HeaderServiceTime = "X-Service-Time-Ms" // how long it was worked on, queueing left out, in milliseconds
)

// Config is what a demo backend is.
type Config struct {
	Name        string        // shown in each answer
	Mean        time.Duration // mean service time
	Sigma       float64       // of the lognormal service time; 0: always Mean
	Concurrency int           // requests worked on at once; 0: no limit
	Queue       int           // requests that may wait for a slot; past it, 503. 0: none waits
	Seed        uint64        // of service times and simulated errors; 0: different each time
}

// Validate reports what is out of range.
func (c Config) Validate() error {
	switch {
	case c.Mean <= 0 || c.Mean > time.Hour:
		return fmt.Errorf("mean %v: want more than 0 and at most 1h", c.Mean)
	case !(c.Sigma >= 0 && c.Sigma <= 3):
		return fmt.Errorf("sigma %v: want 0 to 3", c.Sigma)
	case c.Concurrency < 0:
		return fmt.Errorf("concurrency %d: want 0 (no limit) or more", c.Concurrency)
	case c.Queue < 0:
		return fmt.Errorf("queue %d: want 0 or more", c.Queue)
	}
	return nil
}

// Server is one backend. It is an http.Handler; Serve puts it on a listener.
type Server struct {
	config Config
	slots  *slots
	mux    *http.ServeMux

	mu      sync.Mutex // guards what follows
	control Control
	dice    *rand.Rand
	life    context.Context // ends when the backend goes down
	kill    context.CancelFunc
	flow    chan struct{} // closed when the stall ends; nil while there is none
}

// New makes a backend that is up, at its own speed and without errors.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("demo backend %s: %w", c.Name, err)
	}
	seed := c.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	s := &Server{
		config: c, slots: newSlots(c.Concurrency, c.Queue), control: Control{Slowdown: 1},
		dice: rand.New(rand.NewPCG(seed, 0)), mux: http.NewServeMux(),
	}
	s.life, s.kill = context.WithCancel(context.Background())
	s.mux.HandleFunc("GET /control", s.showControl)
	s.mux.HandleFunc("PUT /control", s.putControl)
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("/", s.work)
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve answers on l until ctx ends, then lets requests that are being worked on finish for a second at most. It
// closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving demo backend %s: %w", s.config.Name, err)
}

// filler makes an answer's body about 1 KiB.
var filler = strings.Repeat("retune demo backend\n", 50)

// work is every ordinary request. One whose client goes away, or whose backend goes down, ends at once.
func (s *Server) work(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // net/http sees a client leave only after its body
		return
	}
	service, fails, life := s.draw()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	err := s.slots.acquire(ctx)
	if err == nil {
		defer s.slots.release()
		err = sleep(ctx, service)
	}
	switch {
	case life.Err() != nil:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		s.fail(w, http.StatusServiceUnavailable, "queue full")
	case err != nil: // the client is gone
	case fails:
		s.fail(w, http.StatusInternalServerError, "simulated error")
	default:
		s.answer(ctx, w, r, service)
	}
}

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, service time.Duration) {
	h := w.Header()
	h.Set(HeaderBackend, s.config.Name)
	h.Set(HeaderServiceTime, strconv.FormatFloat(float64(service)/1e6, 'f', 3, 64))
	h.Set("Content-Type", "text/plain; charset=utf-8")
	body := fmt.Sprintf("%s %s %s\n%s", s.config.Name, r.Method, r.URL.Path, filler)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if flow := s.stalled(); flow != nil {
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		body = body[len(body)/2:]
		select {
		case <-flow:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = io.WriteString(w, body)
}

// stalled is the stall that holds; nil when there is none.
func (s *Server) stalled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flow
}

func (s *Server) fail(w http.ResponseWriter, status int, why string) {
	w.Header().Set(HeaderBackend, s.config.Name)
	http.Error(w, why, status)
}

// draw decides what becomes of a request; life is done if it meets a dead backend, now or later.
func (s *Server) draw() (service time.Duration, fails bool, life context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// mu = ln(mean) - sigma²/2, so that the mean, not the median, is Mean
	x := math.Exp(s.config.Sigma*s.dice.NormFloat64() - s.config.Sigma*s.config.Sigma/2)
	service = time.Duration(float64(s.config.Mean) * x * s.control.Slowdown)
	return service, s.dice.Float64() < s.control.ErrorRate, s.life
}

// healthz is for the proxy's health checks.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if s.Control().Down {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(HeaderBackend, s.config.Name)
	fmt.Fprintln(w, "ok")
}

// sleep waits for d, or fails as soon as ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
