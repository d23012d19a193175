package sim

import (
	"time"

	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// control is the proxy's control loop on the virtual clock: a window of the traffic, and the governor that names its
// state and switches the algorithm by the rules.
type control struct {
	governor *steering.Governor
	window   *traffic.Window
	tallies  []*traffic.Tally // by backend
}

// steer puts rules in force, and has them evaluated at the end of each window.
func (w *world) steer(rs rules.RuleSet) {
	c := &control{
		governor: steering.New(rs, "sim"),
		window:   traffic.NewWindow(0, rs.Detection.Window, rs.Detection.LatencySlopeWindows),
	}
	for _, s := range w.servers {
		c.tallies = append(c.tallies, c.window.Backend(s.Balance.ID()))
	}
	w.control = c
	w.enforce()
	w.at(int64(c.governor.Window()), w.evaluate)
}

// enforce builds the picker that the governor wants. Its algorithms are known: the rules were validated.
func (w *world) enforce() {
	if err := w.choose(w.control.governor.Algorithm(), w.control.governor.Params()); err != nil {
		panic("sim: rules that were not validated: " + err.Error())
	}
}

// evaluate judges the window that ends now.
func (w *world) evaluate() {
	if w.over() {
		return
	}
	c, now := w.control, time.Unix(0, w.now).UTC()
	live := make([]traffic.Live, len(w.servers))
	for i, s := range w.servers {
		live[i] = traffic.Live{ID: s.Balance.ID(), Healthy: true, InFlight: s.Balance.InFlight()}
	}
	before := c.governor.Params()
	d := c.governor.Evaluate(now, c.window.Snapshot(w.now, now, live))
	if d.Switched || c.governor.Params() != before {
		w.enforce()
	}
	if d.Switched && w.now >= int64(w.setup.Warm) {
		w.switches++
	}
	w.at(w.now+int64(c.governor.Window()), w.evaluate)
}
