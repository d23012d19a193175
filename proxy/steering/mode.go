package steering

import (
	"fmt"
	"time"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// The modes.
const (
	Adaptive = "adaptive"
	Fixed    = "fixed"
)

// check says what is wrong with a mode.
func (m Mode) check() error {
	switch {
	case m.Mode != "" && m.Mode != Adaptive && m.Mode != Fixed:
		return fmt.Errorf("mode: %q is neither %s nor %s", m.Mode, Adaptive, Fixed)
	case m.Mode == Fixed && !m.Algorithm.Known():
		return fmt.Errorf("algorithm: %q is none of %v", m.Algorithm, balance.Algorithms())
	case m.Mode != Fixed && m.Algorithm != "":
		return fmt.Errorf("algorithm: %s goes with mode %s alone", m.Algorithm, Fixed)
	case m.TimeScale != 0 && !(m.TimeScale > 0 && m.TimeScale <= 1):
		return fmt.Errorf("time_scale: %v is not in (0, 1]", m.TimeScale)
	}
	return nil
}

// SetMode sets adaptive or fixed mode (an empty Mode leaves it), and may reset and scale time. In fixed mode states
// are still evaluated, so that the way back maps the current one at once. A reset is a new start: LOW_TRAFFIC,
// no cooldown, no switches counted, and the next window is adopted without hysteresis; the caller resets its
// windows with it. A mode that is not valid is an error and changes nothing.
func (g *Governor) SetMode(now time.Time, m Mode) (Decision, error) {
	if err := m.check(); err != nil {
		return Decision{}, err
	}
	cause := CauseMode
	if m.Reset {
		cause = CauseReset
	}
	d := g.decision(now, cause)
	if m.Mode != "" {
		g.fixed = m.Algorithm
	}
	if m.TimeScale != 0 && m.TimeScale != g.scale {
		g.scale, g.run = m.TimeScale, run{}
	}
	if m.Reset {
		g.forget()
		d.State = g.state
	}
	g.enforce(now, &d)
	if m.Reset {
		g.last = time.Time{}
	}
	d.Reason = g.explainMode(d)
	return d, nil
}

// forget takes the governor back to its start, under the same rules and mode.
func (g *Governor) forget() {
	g.state, g.fresh, g.run, g.spike = traffic.LowTraffic, true, run{}, spike{}
	g.last, g.switches = time.Time{}, nil
	g.seen = traffic.Snapshot{Backends: []traffic.BackendSnapshot{}}
}

// Mode is the mode as it is, without Reset.
func (g *Governor) Mode() Mode {
	m := Mode{Mode: Adaptive, TimeScale: g.scale}
	if g.fixed != "" {
		m.Mode, m.Algorithm = Fixed, g.fixed
	}
	return m
}
