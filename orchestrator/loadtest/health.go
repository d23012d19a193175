package loadtest

import (
	"fmt"
	"math"
)

// Bounds of a run's health, and the figures from which on it is near them.
const (
	minRequests   = 100
	minOfPlanned  = 0.95
	nearOfPlanned = 0.97
	maxDropped    = 0.01
	nearDropped   = 0.005
	maxDriverCPU  = 0.80 // of one core: beyond it the driver's own queueing is measured
	nearDriverCPU = 0.70
)

// Check is one figure of a run's health beside its bound.
type Check struct {
	Name  CheckName  `json:"name"`
	Value float64    `json:"value"` // a number of requests, or a share
	Bound float64    `json:"bound"`
	Least bool       `json:"least,omitempty"` // the bound is the least that is needed; else the most that is allowed
	State CheckState `json:"state"`
	// Says is the figure, its bound and what to do, in a few sentences; empty when all is well.
	Says string `json:"says,omitempty"`
}

// CheckName says what a Check is about.
type CheckName string

// The checks of a run's health.
const (
	CheckRequests  CheckName = "requests"   // that were measured
	CheckReached   CheckName = "reached"    // share of the planned requests that were made
	CheckDropped   CheckName = "dropped"    // share of the requests that the driver could not start on time
	CheckDriverCPU CheckName = "driver_cpu" // share of one core that the driver used
)

// CheckState is how a figure stands to its bound.
type CheckState string

// The states: a run with a figure beyond its bound is no evidence.
const (
	Sound  CheckState = "ok"
	Near   CheckState = "near"
	Beyond CheckState = "beyond"
)

// Health is how well the load of a run was made. A run without a plan (a closed loop) has no share of it that was reached.
func (r Result) Health() []Check {
	all := []Check{r.enough()}
	if r.Planned > 0 {
		all = append(all, r.reached())
	}
	return append(all, r.drops(), r.driverCPU())
}

func (r Result) enough() Check {
	c := Check{Name: CheckRequests, Value: float64(r.Requests), Bound: minRequests, Least: true}
	return c.judged(r.Requests < minRequests, false, "Only %d requests were measured; %d are the least that is evidence. Make the scenario longer, or raise its rates.",
		r.Requests, minRequests)
}

func (r Result) reached() Check {
	c := Check{Name: CheckReached, Value: float64(r.Requests) / float64(r.Planned), Bound: minOfPlanned, Least: true}
	return c.judged(r.Requests < leastOf(r.Planned), c.Value < nearOfPlanned,
		"%d of %d planned requests were made (%.1f%%); at least %.0f%% are needed. Free the driver's machine, or lower the rates.",
		r.Requests, r.Planned, 100*c.Value, 100*minOfPlanned)
}

// leastOf is how many of the planned requests have to be made.
func leastOf(planned int64) int64 { return int64(math.Floor(minOfPlanned * float64(planned))) }

func (r Result) drops() Check {
	asked := max(1, r.Planned, r.Requests+r.Dropped)
	c := Check{Name: CheckDropped, Value: float64(r.Dropped) / float64(asked), Bound: maxDropped}
	return c.judged(float64(r.Dropped) > maxDropped*float64(asked), c.Value > nearDropped,
		"%d of %d requests were dropped (%.1f%%), since the driver could not start them on time; at most %.0f%% may be. Free the driver's machine, lower the rates, or see why answers take so long.",
		r.Dropped, asked, 100*c.Value, 100*maxDropped)
}

func (r Result) driverCPU() Check {
	c := Check{Name: CheckDriverCPU, Value: r.DriverCPU, Bound: maxDriverCPU}
	return c.judged(!(r.DriverCPU <= maxDriverCPU), r.DriverCPU > nearDriverCPU,
		"The driver used %.0f%% of a core; beyond %.0f%% it measures itself. Lower the rates.", 100*r.DriverCPU, 100*maxDriverCPU)
}

// judged sets the state, and the sentences where there is something to say.
func (c Check) judged(beyond, near bool, format string, args ...any) Check {
	switch {
	case beyond:
		c.State = Beyond
	case near:
		c.State = Near
	default:
		c.State = Sound
		return c
	}
	c.Says = fmt.Sprintf(format, args...)
	return c
}
