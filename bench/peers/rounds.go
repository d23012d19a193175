//go:build linux

package main

import (
	"context"
	"slices"
)

// sample is a contender's run in one round beside the mean of nginx's runs just before and after it: machines drift by
// a fifth within minutes, so a ratio is worth more than two figures.
type sample struct {
	run run
	ref run
}

// samples are those of each contender, a round each, and nginx's runs on the way.
type samples struct {
	of    map[string][]sample
	nginx []run
}

// rounds measures all contenders that often, with nginx before and after every two of them; their order rotates.
func (st *stand) rounds(ctx context.Context) (s samples, err error) {
	for _, c := range st.contenders {
		if _, err := st.once(ctx, c, 1); err != nil { // warms up
			return s, err
		}
	}
	s.of = map[string][]sample{}
	peer, others := st.contenders[0], st.contenders[1:]
	last, err := st.measure(ctx, peer, st.seconds)
	if err != nil {
		return s, err
	}
	s.nginx = append(s.nginx, last)
	for round := range st.options.rounds {
		for two := range slices.Chunk(rotated(others, round), 2) {
			var runs []run
			for _, c := range append(slices.Clone(two), peer) {
				r, err := st.measure(ctx, c, st.seconds)
				if err != nil {
					return s, err
				}
				runs = append(runs, r)
			}
			next := runs[len(two)]
			for i, c := range two {
				s.of[c.name] = append(s.of[c.name], sample{runs[i], mean(last, next)})
			}
			s.nginx = append(s.nginx, next)
			last = next
		}
	}
	return s, nil
}

func rotated[T any](all []T, by int) []T {
	by %= len(all)
	return slices.Concat(all[by:], all[:by])
}

// mean of two runs, of the figures that ratios are made of.
func mean(a, b run) run {
	return run{RPS: (a.RPS + b.RPS) / 2, CPU: (a.CPU + b.CPU) / 2, P50: (a.P50 + b.P50) / 2, P99: (a.P99 + b.P99) / 2}
}

// runs of a contender.
func (s samples) runs(name string) (all []run) {
	if name == nginx {
		return s.nginx
	}
	for _, x := range s.of[name] {
		all = append(all, x.run)
	}
	return all
}

// figure picks one number of a run.
type figure func(run) float64

func rps(r run) float64   { return r.RPS }
func cpu(r run) float64   { return r.CPU }
func cores(r run) float64 { return r.Cores }
func p50(r run) float64   { return r.P50 }
func p99(r run) float64   { return r.P99 }

// median of a figure over a contender's runs.
func (s samples) median(name string, f figure) float64 {
	var all []float64
	for _, r := range s.runs(name) {
		all = append(all, f(r))
	}
	return spreadOf(all).Median
}

// ratio of a figure to a peer's, round by round: each to nginx beside it first, so that runs that are minutes apart are
// not compared directly.
func (s samples) ratio(name, peer string, f figure) spread {
	var all []float64
	for round := range s.of[haproxy] {
		all = append(all, s.toNginx(name, round, f)/s.toNginx(peer, round, f))
	}
	return spreadOf(all)
}

func (s samples) toNginx(name string, round int, f figure) float64 {
	if name == nginx {
		return 1
	}
	x := s.of[name][round]
	return f(x.run) / f(x.ref)
}

// added is what a contender adds to a latency: its own, less that of a backend alone in the same round.
func (s samples) added(name string, f figure) spread {
	var all []float64
	for round, d := range s.of[direct] {
		own := f(d.ref) // nginx's
		if name != nginx {
			own = f(s.of[name][round].run)
		}
		all = append(all, own-f(d.run))
	}
	return spreadOf(all)
}

// errors over all runs of a contender.
func (s samples) errors(name string) (n int) {
	for _, r := range s.runs(name) {
		n += r.Errors
	}
	return n
}

// foreign is the most that others took during any of a contender's runs.
func (s samples) foreign(name string) (most float64) {
	for _, r := range s.runs(name) {
		most = max(most, r.Foreign)
	}
	return most
}

// spread is a figure over rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(all []float64) spread {
	if len(all) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}
