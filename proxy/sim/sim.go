// Package sim runs the proxy's own balancing code on a virtual clock against modelled backends: minutes of
// traffic in milliseconds, the same every time for the same seed.
package sim

import (
	"math/rand/v2"
	"time"

	"retune/proxy/balance"
)

// Setup is one experiment.
type Setup struct {
	Algorithm balance.Algorithm // or Oracle
	Backends  []Backend
	Load      Load
	Events    []Event       // what happens to the backends meanwhile
	Warm      time.Duration // not measured
	Measured  time.Duration // follows Warm
	Seed      uint64
}

// Load is what the clients do. With Clients they form a closed loop, else requests come at Rate by chance
// (Poisson).
type Load struct {
	Rate    float64       // requests a second
	Clients int           // each waits for its answer, then thinks
	Think   time.Duration // between an answer and the client's next request
	Keys    int           // each request comes from one of so many addresses; 1000 by default
}

// Event changes backends at an instant of the virtual clock.
type Event struct {
	At time.Duration
	Do func([]*Server)
}

// Oracle is the limit: it knows each queue and the mean service time, and picks what should be done first.
const Oracle balance.Algorithm = "ORACLE"

// Run does the experiment. The error is an unknown algorithm.
func Run(s Setup) (Result, error) {
	w := &world{setup: s, dice: rand.New(rand.NewPCG(s.Seed, 1))}
	for _, b := range s.Backends {
		w.servers = append(w.servers, newServer(b))
	}
	if err := w.choose(s.Algorithm); err != nil {
		return Result{}, err
	}
	for _, e := range s.Events {
		w.at(int64(e.At), func() { e.Do(w.servers) })
	}
	w.start(s.Load)
	w.run(int64(s.Warm + s.Measured))
	return w.result(), nil
}

// world is one experiment under way; a single goroutine owns it.
type world struct {
	calendar
	setup   Setup
	servers []*Server
	picker  balance.Picker
	dice    *rand.Rand
	keys    []uint64
	done    []answer
}

// answer is one measured request.
type answer struct {
	took   int64
	server int
	failed bool
}

// choose builds the picker; it reads the virtual clock.
func (w *world) choose(a balance.Algorithm) (err error) {
	if a == Oracle {
		w.picker = &oracle{w}
		return nil
	}
	var backends []*balance.Backend
	for _, s := range w.servers {
		backends = append(backends, s.Balance)
	}
	w.picker, err = balance.New(a, backends, balance.Options{Seed: w.setup.Seed + 1, Now: func() int64 { return w.now }})
	return err
}

// start puts the first requests on the calendar.
func (w *world) start(l Load) {
	n := l.Keys
	if n == 0 {
		n = 1000
	}
	for range n {
		w.keys = append(w.keys, w.dice.Uint64())
	}
	for range l.Clients {
		w.at(int64(w.dice.Float64()*float64(l.Think)), w.client)
	}
	if l.Clients == 0 {
		w.at(w.gap(), w.arrive)
	}
}

// gap is the time to the next arrival of an open load.
func (w *world) gap() int64 { return int64(w.dice.ExpFloat64() / w.setup.Load.Rate * 1e9) }

func (w *world) arrive() {
	w.request(func() {})
	w.at(w.now+w.gap(), w.arrive)
}

func (w *world) client() {
	w.request(func() { w.at(w.now+int64(w.setup.Load.Think), w.client) })
}

// request sends one through the picker, and calls then when it was answered.
func (w *world) request(then func()) {
	b := w.picker.Pick(w.keys[w.dice.IntN(len(w.keys))])
	i := w.index(b)
	s := w.servers[i]
	began := w.now
	load := b.Begin()
	took, outcome := s.serve(began, w.dice)
	w.at(began+took, func() {
		b.End(load, w.now, time.Duration(took), outcome)
		if began >= int64(w.setup.Warm) {
			w.done = append(w.done, answer{took, i, outcome == balance.Failure})
		}
		then()
	})
}

func (w *world) index(b *balance.Backend) int {
	for i, s := range w.servers {
		if s.Balance == b {
			return i
		}
	}
	panic("sim: the picker chose a backend that is not in the set")
}

// oracle is a balance.Picker that sees what no proxy can.
type oracle struct{ w *world }

func (o *oracle) Pick(uint64) *balance.Backend {
	var best *Server
	var least float64
	for _, s := range o.w.servers {
		if t := s.expected(o.w.now); best == nil || t < least {
			best, least = s, t
		}
	}
	return best.Balance
}
