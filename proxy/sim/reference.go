package sim

import (
	"fmt"
	"time"
)

// Scenario is an experiment without an algorithm and a seed.
type Scenario struct {
	Name        string
	Description string // one line
	Setup       Setup
}

// Reference are the loads by which algorithms are compared. The first is the one that `retune bench --reference`
// puts on real sockets; the goals of EXPECTED_COMPLETION are set in those with the demo backends; the others keep
// an algorithm from being made for the demo.
func Reference() []Scenario {
	demo := DemoBackends(0.3, 16)
	hundred := Load{Clients: 100, Think: 100 * time.Millisecond}
	return []Scenario{
		scenario("reference", "100 clients, 100 ms think time, fixed service times, no queue", DemoBackends(0, 0), hundred),
		scenario("100 rps", "open load, 16 slots each", demo, Load{Rate: 100}),
		scenario("300 rps", "open load, 16 slots each", demo, Load{Rate: 300}),
		scenario("400 rps", "open load, 16 slots each", demo, Load{Rate: 400}),
		scenario("100 clients", "100 ms think time, 16 slots each", demo, hundred),
		failing(scenario("failure", "150 rps, the fastest fails for 10 s and comes back; nothing ejects it", demo, Load{Rate: 150})),
		burst(scenario("burst", "60 rps, four times that for 15 s, 16 slots each", demo, Load{})),
		scenario("six others", "700 rps, 8 slots each: 2 × 20 ms, 2 × 80 ms, 200 ms, 1 s", backends(0.3, 8, 20, 20, 80, 80, 200, 1000), Load{Rate: 700}),
		scenario("alike", "140 rps, 4 slots each: 4 × 100 ms", backends(0.3, 4, 100, 100, 100, 100), Load{Rate: 140}),
		scenario("long tail", "300 rps, 16 slots each, lognormal 1", DemoBackends(1, 16), Load{Rate: 300}),
		scenario("one slot", "15 rps, 1 slot each", DemoBackends(0.3, 1), Load{Rate: 15}),
	}
}

func scenario(name, description string, b []Backend, l Load) Scenario {
	return Scenario{name, description, Setup{Backends: b, Load: l, Warm: 10 * time.Second, Measured: 20 * time.Second}}
}

// failing has the first backend refuse everything, in a millisecond each, from 15 s to 25 s, and measures 40 s.
func failing(s Scenario) Scenario {
	turn := func(at time.Duration, share float64) Event {
		return Event{at, func(all []*Server) { all[0].Failing = share }}
	}
	s.Setup.Events = []Event{turn(15*time.Second, 1), turn(25*time.Second, 0)}
	s.Setup.Measured = 40 * time.Second
	return s
}

// burst goes from 60 to 240 requests a second at 20 s, and back at 35 s, and measures 40 s.
func burst(s Scenario) Scenario {
	s.Setup.Load.Rate = 60
	s.Setup.Load.Steps = []Step{{20 * time.Second, 240}, {35 * time.Second, 60}}
	s.Setup.Measured = 40 * time.Second
	return s
}

// queue is that of the demo backends.
const queue = 1024

// DemoBackends are the four of `retune backends`: 50, 150, 300 and 500 ms, weights 6:3:2:1.
func DemoBackends(sigma float64, concurrency int) []Backend {
	all := backends(sigma, concurrency, 50, 150, 300, 500)
	for i, w := range []int{6, 3, 2, 1} {
		all[i].Weight = w
	}
	return all
}

// backends have these mean service times in milliseconds.
func backends(sigma float64, concurrency int, means ...int) (all []Backend) {
	for i, ms := range means {
		all = append(all, Backend{
			ID: fmt.Sprintf("server-%d", i+1), Weight: 1, Mean: time.Duration(ms) * time.Millisecond,
			Sigma: sigma, Concurrency: concurrency, Queue: queue,
		})
	}
	return all
}
