package detection

import (
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

// Report is one run's windows with their true states, and how long each true state took to be named.
type Report struct {
	Scenario string   `json:"scenario"`
	HoldOut  bool     `json:"hold_out,omitempty"` // a generator never sees it
	WindowS  float64  `json:"window_s"`           // seconds of one window, as the proxy ran it
	Windows  []Window `json:"windows"`
	Delays   []Delay  `json:"delays"`
	// Classifier labelled the windows: a model's name or "local"; empty: nobody did.
	Classifier string `json:"classifier,omitempty"`
}

// Window is one window of the proxy.
type Window struct {
	AtS        float64       `json:"at_s"`            // its end, from the start of the measured load
	Truth      traffic.State `json:"truth,omitempty"` // empty: it lies across two states
	Named      traffic.State `json:"named"`           // by the proxy
	Classified traffic.State `json:"classified,omitempty"`
}

// Delay is how long the proxy took to name a true state.
type Delay struct {
	State traffic.State `json:"state"`
	FromS float64       `json:"from_s"`
	ToS   float64       `json:"to_s"`
	// Windows is the time from the state's start to the end of the first window that named it, in windows; at best it
	// is between 0 and 1. nil: no window named it until one window after its end.
	Windows *float64 `json:"windows"`
}

// Of sets the windows of a run's measured load against the truth. started is the measured load's start. False: there
// is no truth to be known, or no window.
func Of(shape loadtest.Shape, started time.Time, snapshots []traffic.Snapshot) (Report, bool) {
	t, known := newTimeline(Observed{shape, started, snapshots})
	if !known || len(shape.Phases) == 0 {
		return Report{}, false
	}
	r := Report{Scenario: shape.Name, HoldOut: shape.HoldOut, WindowS: t.window.Seconds()}
	for i, s := range t.seen {
		r.Windows = append(r.Windows, Window{AtS: s.At.Sub(started).Seconds(), Truth: t.truth[i], Named: s.State})
	}
	for i, s := range t.spans {
		if i > 0 && s.To-s.From >= t.window { // the first began before the measured load
			r.Delays = append(r.Delays, r.delay(s))
		}
	}
	return r, true
}

// Measured keeps the windows that end within a run's measured load, oldest first: those that Of reports, in its order.
func Measured(shape loadtest.Shape, started time.Time, snapshots []traffic.Snapshot) (seen []traffic.Snapshot) {
	for _, s := range snapshots {
		late := time.Duration((1 - pure) * float64(s.Window))
		if at := s.At.Sub(started); s.Window > 0 && at > 0 && at <= shape.Duration()+late {
			seen = append(seen, s)
		}
	}
	slices.SortStableFunc(seen, func(a, b traffic.Snapshot) int { return a.At.Compare(b.At) })
	return seen
}

func (r Report) delay(s Span) Delay {
	d := Delay{State: s.State, FromS: s.From.Seconds(), ToS: s.To.Seconds()}
	for _, w := range r.Windows {
		if w.Named == s.State && w.AtS > d.FromS && w.AtS <= d.ToS+r.WindowS {
			took := (w.AtS - d.FromS) / r.WindowS
			d.Windows = &took
			break
		}
	}
	return d
}

// Labelled is the report with a classifier's label for each window, in their order; windows past the last label have
// none.
func (r Report) Labelled(classifier string, labels []traffic.State) Report {
	r.Classifier, r.Windows = classifier, slices.Clone(r.Windows)
	for i, label := range labels[:min(len(labels), len(r.Windows))] {
		r.Windows[i].Classified = label
	}
	return r
}
