// Package sim runs the proxy's own balancing code on a virtual clock against modelled backends: minutes of
// traffic in milliseconds, the same every time for the same seed.
package sim

import (
	"math/rand/v2"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// Setup is one experiment.
type Setup struct {
	Algorithm balance.Algorithm // or Oracle
	Rules     *rules.RuleSet    // switch by them, as the proxy does, instead of Algorithm; nil: don't
	Backends  []Backend
	Load      Load
	Events    []Event       // what happens to the backends meanwhile
	Warm      time.Duration // not measured
	Measured  time.Duration // follows Warm; what has begun in it counts, however late it is answered
	Seed      uint64
	WaitPrice float64 // of the Oracle alone: what it counts a second of waiting for; 1 by default
}

// Load is what the clients do. With Clients they form a closed loop, else requests come at Rate by chance
// (Poisson).
type Load struct {
	Rate    float64       // requests a second
	Steps   []Step        // changes of Rate
	Clients int           // each waits for its answer, then thinks
	Think   time.Duration // between an answer and the client's next request
	Keys    int           // each request comes from one of so many addresses; 1000 by default
}

// Step is a change of an open load's rate.
type Step struct {
	At   time.Duration
	Rate float64
}

// Event changes backends at an instant of the virtual clock.
type Event struct {
	At time.Duration
	Do func([]*Server)
}

// Run does the experiment. The error is an unknown algorithm.
func Run(s Setup) (Result, error) {
	w := &world{setup: s, dice: rand.New(rand.NewPCG(s.Seed, 1))}
	for _, b := range s.Backends {
		w.servers = append(w.servers, newServer(b))
	}
	if s.Rules != nil {
		w.steer(*s.Rules)
	} else if err := w.choose(s.Algorithm, rules.Params{}); err != nil {
		return Result{}, err
	}
	for _, e := range s.Events {
		w.at(int64(e.At), func() { e.Do(w.servers) })
	}
	for _, step := range s.Load.Steps {
		w.at(int64(step.At), func() { w.setup.Load.Rate = step.Rate })
	}
	w.start(s.Load)
	w.run()
	return w.result(), nil
}

// world is one experiment under way; a single goroutine owns it.
type world struct {
	calendar
	setup   Setup
	servers []*Server
	picker  balance.Picker
	control *control // nil: one algorithm throughout
	dice    *rand.Rand
	keys    []uint64
	done    []answer

	answered int // without failure, while it was measured
	switches int // of the algorithm, while it was measured
}

// answer is one measured request.
type answer struct {
	began  int64
	took   int64
	server int
	failed bool
}

// choose builds the picker; it reads the virtual clock.
func (w *world) choose(a balance.Algorithm, p rules.Params) (err error) {
	if a == Oracle {
		w.picker = newOracle(w)
		return nil
	}
	var backends []*balance.Backend
	for _, s := range w.servers {
		backends = append(backends, s.Balance)
	}
	w.picker, err = balance.New(a, backends, balance.Options{Decay: p.Decay, Seed: w.setup.Seed + 1, Now: func() int64 { return w.now }})
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

// over reports whether the load has ended; what is under way then is still answered.
func (w *world) over() bool { return w.now >= int64(w.setup.Warm+w.setup.Measured) }

func (w *world) arrive() {
	if w.over() {
		return
	}
	w.request(func() {})
	w.at(w.now+w.gap(), w.arrive)
}

func (w *world) client() {
	if w.over() {
		return
	}
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
		if w.control != nil {
			w.control.tallies[i].Record(w.now, time.Duration(took), traffic.Outcome(outcome))
		}
		w.finished(answer{began, took, i, outcome == balance.Failure})
		then()
	})
}

func (w *world) finished(a answer) {
	if a.began >= int64(w.setup.Warm) {
		w.done = append(w.done, a)
	}
	if w.now >= int64(w.setup.Warm) && !w.over() && !a.failed {
		w.answered++
	}
}

func (w *world) index(b *balance.Backend) int {
	for i, s := range w.servers {
		if s.Balance == b {
			return i
		}
	}
	panic("sim: the picker chose a backend that is not in the set")
}
