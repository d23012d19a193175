package switchlog

import (
	"fmt"
	"math"
	"slices"
	"time"

	"retune/proxy/steering"
)

const (
	most        = 3     // windows on either side that are compared
	fewestPairs = 3     // of neighbouring windows from which noise is known, …
	fewestOther = 6     // … of those of other scenarios, which are not quite the same
	beyond      = 2     // standard deviations, about 95% of what noise does
	leastErrors = 0.005 // half a percentage point: less is no difference, however quiet the run
	leastRatio  = 1.10  // a tenth, likewise
)

// judge says what one switch brought.
func (a analysis) judge(d steering.Decision, n noise) Switch {
	s := Switch{
		Scenario: a.run.Scenario, AtS: d.At.Sub(a.run.Started).Round(time.Millisecond).Seconds(), State: d.State,
		From: d.PreviousAlgorithm, To: d.Algorithm, Confident: d.Confidence, Outcome: Unclear,
	}
	from, until := a.stretch(d.BootID, d.At)
	before, after := a.between(d.BootID, from.at, d.At), a.between(d.BootID, d.At, until.at)
	slices.Reverse(before) // the nearest first
	s.Before, s.After = figures(before[:min(1, len(before))]), figures(after[:min(1, len(after))])
	switch {
	case len(after) == 0:
		s.Why = fmt.Sprintf("%s %.1f s after it, before a whole window had passed", until.what, until.at.Sub(d.At).Seconds())
		return s
	case len(before) == 0:
		s.Why = fmt.Sprintf("%s %.1f s before it: no whole window lies between", from.what, d.At.Sub(from.at).Seconds())
		return s
	}
	like, now := a.alike(before, after)
	if len(like) == 0 {
		s.Why = fmt.Sprintf("the load itself went from %.1f to %.1f rps: no window before the switch had the load that came after it", s.Before.Offered, s.After.Offered)
		return s
	}
	s.Windows, s.Before, s.After = len(like), figures(like), figures(now)
	if n.pairs == 0 {
		s.Why = fmt.Sprintf("fewer than %d pairs of neighbouring windows without a change: what noise does here is not known", fewestPairs)
		return s
	}
	s.Outcome, s.Why = n.outcome(s.Before, s.After)
	return s
}

// alike chooses windows of one load, as many from either side, up to three each and the nearest first.
func (a analysis) alike(before, after []window) (like, now []window) {
	load := after[0].offered
	for _, w := range before {
		if alike(w.offered, load) {
			like = append(like, w)
		}
	}
	for _, w := range after {
		if !alike(w.offered, load) {
			break
		}
		now = append(now, w)
	}
	n := min(most, len(like), len(now))
	return like[:n], now[:n]
}

// outcome compares by what counts first: fewer errors; as many and a lower p95; both alike and more of the load
// answered. What no metric shows beyond noise is unclear.
func (n noise) outcome(before, after Figures) (Outcome, string) {
	errors, bound := after.ErrorRate-before.ErrorRate, max(leastErrors, beyond*n.errors)
	if math.Abs(errors) > bound {
		return better(errors < 0), fmt.Sprintf("errors %.1f%% → %.1f%%, beyond the ±%.1f points that neighbouring windows differ by",
			100*before.ErrorRate, 100*after.ErrorRate, 100*bound)
	}
	if before.P95MS <= 0 || after.P95MS <= 0 {
		return Unclear, "errors alike, and nothing was answered that a latency could be told of"
	}
	p95, bound := math.Log(after.P95MS/before.P95MS), max(math.Log(leastRatio), beyond*n.p95)
	said := fmt.Sprintf("p95 %.0f → %.0f ms (%+.0f%%)", before.P95MS, after.P95MS, 100*math.Expm1(p95))
	if math.Abs(p95) > bound {
		return better(p95 < 0), fmt.Sprintf("%s, beyond the ±%.0f%% that neighbouring windows of the same load differ by", said, 100*math.Expm1(bound))
	}
	served := math.Log(after.RPS / after.Offered * before.Offered / before.RPS)
	if limit := max(math.Log(leastRatio), beyond*n.served); math.Abs(served) > limit {
		return better(served > 0), fmt.Sprintf("%+.0f%% of the load answered, beyond the ±%.0f%% that neighbouring windows differ by",
			100*math.Expm1(served), 100*math.Expm1(limit))
	}
	return Unclear, fmt.Sprintf("%s, within the ±%.0f%% that neighbouring windows of the same load differ by", said, 100*math.Expm1(bound))
}

func better(is bool) Outcome {
	if is {
		return Paid
	}
	return Cost
}
