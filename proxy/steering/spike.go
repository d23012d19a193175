package steering

import (
	"fmt"
	"time"

	"retune/proxy/traffic"
)

// spike remembers what the traffic was before it jumped. The change rate compares neighbouring windows, so a burst
// that steps up and stays shows it once: in the next window the high rate is what it is compared with. Taken
// alone, spike_sustained_windows of 2 would ask for traffic that keeps doubling, and no burst would ever pass.
type spike struct {
	base float64 // rps before the jump
	left int     // for how many windows more the base is what counts
}

// classify names a window's state, with a spike held for as long as the gates may need to believe it, and the traffic
// stays past spike_rate over what it was before. What starts from nothing has no base and isn't held.
func (g *Governor) classify(s traffic.Snapshot) traffic.Classification {
	c := traffic.Classify(g.rules.Detection, s)
	g.spike.left--
	switch c.State {
	case traffic.Spike:
		if s.PreviousRPS > 0 {
			g.spike = spike{s.PreviousRPS, g.spikeWindows() - 1}
		}
	case traffic.HighStable, traffic.GradualIncrease:
		return g.hold(c, s)
	}
	return c
}

// hold makes a window after a spike one of the spike.
func (g *Governor) hold(c traffic.Classification, s traffic.Snapshot) traffic.Classification {
	if g.spike.left < 0 {
		return c
	}
	rate, threshold := (s.RPS-g.spike.base)/g.spike.base, g.rules.Detection.SpikeRate
	if rate < threshold {
		g.spike = spike{}
		return c
	}
	return traffic.Classification{State: traffic.Spike, Confidence: traffic.SpikeConfidence(rate),
		Reason: fmt.Sprintf("rps %.1f → %.1f since the spike began, rate %+.2f (threshold %.2f)", g.spike.base, s.RPS, rate, threshold)}
}

// spikeWindows is how many windows the gates may need: those of the cooldown, then spike_sustained_windows.
func (g *Governor) spikeWindows() int {
	window := max(g.rules.Detection.Window, time.Millisecond)
	return int((g.rules.Switching.Cooldown+window-1)/window) + g.rules.Switching.SpikeSustainedWindows
}
