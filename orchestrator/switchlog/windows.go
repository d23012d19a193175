package switchlog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"retune/orchestrator/loadtest"
	"retune/proxy/steering"
)

// analysis is a run as its switches are judged by.
type analysis struct {
	run     loadtest.Result
	windows []window // within the measured phase, each proxy's oldest first
	bounds  []bound  // oldest first
}

// window is one window of a proxy, and the load that was sent in it.
type window struct {
	boot     string        // the proxy's
	length   time.Duration // as configured; from and to are by the proxy's clock
	from, to time.Time
	requests uint64
	errors   uint64
	rps, p95 float64
	offered  float64
}

// slack is how much two windows that follow each other may overlap, as a share of one: the proxy's timer is not exact.
const slack = 0.1

func (w window) slack() time.Duration { return time.Duration(slack * float64(w.to.Sub(w.from))) }

// bound is an instant at which something changed that is no part of a switch.
type bound struct {
	at   time.Time
	boot string // of the proxy whose algorithm changed; empty: it concerns every one
	what string // completes "… 3.2 s after it" and "… before it"
}

func (b bound) concerns(boot string) bool { return b.boot == "" || b.boot == boot }

func newAnalysis(r loadtest.Result, decisions []steering.Decision) analysis {
	a := analysis{run: r, bounds: []bound{{at: r.Started, what: "the run began"}, {at: r.Started.Add(r.Duration), what: "the run ended"}}}
	for _, d := range decisions {
		s := d.Snapshot
		from := s.At.Add(-s.Window)
		if d.Cause == steering.CauseWindow && within(r, from) && within(r, s.At) && s.Window > 0 {
			a.windows = append(a.windows, window{d.BootID, s.Window, from, s.At, s.Requests, s.Errors, s.RPS, s.P95MS, offered(r, from, s.At, s.RPS)})
		}
		if d.Switched || d.Cause != steering.CauseWindow {
			a.bounds = append(a.bounds, bound{d.At, d.BootID, "the algorithm changed"})
		}
	}
	for _, m := range r.Marks {
		if !m.Failed {
			what := strings.TrimSpace(strings.ReplaceAll(m.Action, "_", " ") + " " + m.Detail)
			a.bounds = append(a.bounds, bound{at: r.Started.Add(m.At), what: "the scenario made a change (" + what + ")"})
		}
	}
	slices.SortStableFunc(a.bounds, func(x, y bound) int { return x.at.Compare(y.at) })
	return a
}

// offered is the load that was sent between two instants, per second, from the run's own series; answered where a run
// has none.
func offered(r loadtest.Result, from, to time.Time, answered float64) float64 {
	var sent, covered float64
	for i, sec := range r.Series {
		start := r.Started.Add(time.Duration(i) * time.Second)
		part := earlier(to, start.Add(time.Second)).Sub(later(from, start)).Seconds()
		if part > 0 {
			sent += part * float64(sec.Requests+sec.Dropped)
			covered += part
		}
	}
	if covered < 0.5*to.Sub(from).Seconds() {
		return answered
	}
	return sent / covered
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// stretch is the time around an instant in which nothing but the one switch changed.
func (a analysis) stretch(boot string, at time.Time) (from, until bound) {
	for _, b := range a.bounds {
		switch {
		case !b.concerns(boot):
		case b.at.Before(at):
			from = b
		case b.at.After(at):
			return from, b
		}
	}
	return from, bound{at: at, what: "the run ended"} // the switch and the end are one instant
}

// between are a proxy's windows that lie within two instants, oldest first.
func (a analysis) between(boot string, from, until time.Time) (found []window) {
	for _, w := range a.windows {
		if w.boot == boot && !w.from.Before(from.Add(-w.slack())) && !w.to.After(until.Add(w.slack())) {
			found = append(found, w)
		}
	}
	return found
}

// likeLoad is by how much two loads may differ, as a ratio, to be the same.
const likeLoad = 1.2

func alike(a, b float64) bool {
	return a > 0 && b > 0 && math.Abs(math.Log(a/b)) <= math.Log(likeLoad)
}

// noise is what neighbouring windows of one load and one algorithm differ by: standard deviations of the difference.
type noise struct {
	pairs  int     // 0: it is not known
	p95    float64 // of the logarithm
	served float64 // of the logarithm of answered over sent
	errors float64 // of the error rate
}

// kind is of what windows the noise is the same: those of a scenario and a length. Without a scenario it is of all.
type kind struct {
	scenario string
	length   time.Duration
}

// noises are the differences of neighbouring windows, as noise has them.
type noises map[kind][]noise

// learn adds a run's.
func (n noises) learn(a analysis) {
	for i, w := range a.windows {
		next, found := a.next(i)
		if !found || !alike(w.offered, next.offered) || w.p95 <= 0 || next.p95 <= 0 {
			continue
		}
		d := noise{1, math.Abs(math.Log(next.p95 / w.p95)), math.Abs(math.Log(next.served() / w.served())), math.Abs(next.errorRate() - w.errorRate())}
		for _, k := range []kind{{a.run.Scenario, w.length}, {"", w.length}} {
			n[k] = append(n[k], d)
		}
	}
}

// of is the noise of a kind, from its own windows, or from those of all scenarios where there are too few. The median
// absolute difference times 1.4826 estimates the standard deviation and does not mind a few pairs that differ by more than
// noise (Rousseeuw & Croux, 1993).
func (n noises) of(k kind) noise {
	pairs := n[k]
	if len(pairs) < fewestPairs {
		if pairs = n[kind{length: k.length}]; len(pairs) < fewestOther {
			return noise{}
		}
	}
	const toSD = 1.4826
	sd := func(of func(noise) float64) float64 {
		var all []float64
		for _, p := range pairs {
			all = append(all, of(p))
		}
		return toSD * median(all)
	}
	return noise{len(pairs), sd(func(d noise) float64 { return d.p95 }), sd(func(d noise) float64 { return d.served }), sd(func(d noise) float64 { return d.errors })}
}

// next is the window of the same proxy that follows one, if nothing changed within the two.
func (a analysis) next(i int) (window, bool) {
	w := a.windows[i]
	for _, n := range a.windows[i+1:] {
		if n.boot != w.boot {
			continue
		}
		inside := func(b bound) bool { return b.concerns(w.boot) && b.at.After(w.from) && b.at.Before(n.to) }
		return n, n.from.Sub(w.to) < w.to.Sub(w.from) && !slices.ContainsFunc(a.bounds, inside)
	}
	return window{}, false
}

func (w window) served() float64 { return max(w.rps, 1e-9) / max(w.offered, 1e-9) }

func (w window) errorRate() float64 { return float64(w.errors) / float64(max(w.requests, 1)) }

// median is the lower of the two in the middle; 0 of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[(len(x)-1)/2]
}

// figures sums windows up. The p95 is one window's own.
func figures(windows []window) (f Figures) {
	if len(windows) == 0 {
		return f
	}
	var requests, errors uint64
	byP95 := slices.Clone(windows)
	slices.SortFunc(byP95, func(a, b window) int { return cmp.Compare(a.p95, b.p95) })
	for _, w := range windows {
		f.Offered += w.offered / float64(len(windows))
		f.RPS += w.rps / float64(len(windows))
		requests, errors = requests+w.requests, errors+w.errors
	}
	f.P95MS = byP95[(len(byP95)-1)/2].p95
	f.ErrorRate = float64(errors) / float64(max(requests, 1))
	return f
}
