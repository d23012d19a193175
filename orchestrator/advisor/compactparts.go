package advisor

import (
	"slices"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// armOf puts measurements into their scenarios' places.
func armOf(measured []Measured, at map[string]int) compactArm {
	list := func(of func(Measured) float64) []*figure {
		out := make([]*figure, len(at))
		for _, m := range measured {
			if i, known := at[m.Scenario]; known {
				f := figure(of(m))
				out[i] = &f
			}
		}
		return out
	}
	return compactArm{
		RPS:       list(func(m Measured) float64 { return m.RPS }),
		AvgMS:     list(func(m Measured) float64 { return m.AvgMS }),
		P95MS:     list(func(m Measured) float64 { return m.P95MS }),
		P99MS:     list(func(m Measured) float64 { return m.P99MS }),
		ErrorRate: list(func(m Measured) float64 { return m.ErrorRate }),
	}
}

// algorithmTable has a row per algorithm, each figure a list with a place per scenario.
func algorithmTable(e Evidence, algorithms []balance.Algorithm, at map[string]int) *compactTable {
	if len(algorithms) == 0 {
		return nil
	}
	t := &compactTable{Columns: []string{"algorithm", "rps", "avg_ms", "p95_ms", "p99_ms", "error_rate"}}
	for _, a := range algorithms {
		arm := armOf(slices.DeleteFunc(slices.Clone(e.Algorithms), func(m Measured) bool { return m.Algorithm != a }), at)
		t.Rows = append(t.Rows, []any{bounded(string(a), 32), arm.RPS, arm.AvgMS, arm.P95MS, arm.P99MS, arm.ErrorRate})
	}
	return t
}

func sharesOf(states map[traffic.State]float64) map[traffic.State]figure {
	out := map[traffic.State]figure{}
	for _, s := range traffic.States() {
		if states[s] > 0 {
			out[s] = figure(states[s])
		}
	}
	return out
}

// seriesOf groups points by scenario, as rows under named columns.
func seriesOf(points []Point) []compactSeries {
	var out []compactSeries
	columns := []string{"at_s", "rps", "rps_change_rate", "avg_latency_ms", "p95_ms", "error_rate", "state", "algorithm"}
	for _, p := range points {
		i := slices.IndexFunc(out, func(s compactSeries) bool { return s.Scenario == bounded(p.Scenario, 32) })
		if i < 0 {
			i = len(out)
			out = append(out, compactSeries{Scenario: bounded(p.Scenario, 32), compactTable: compactTable{Columns: columns}})
		}
		out[i].Rows = append(out[i].Rows, rowOf(p))
	}
	return out
}

func rowOf(p Point) []any {
	var rate any
	if p.RPSChangeRate != nil {
		rate = figure(*p.RPSChangeRate)
	}
	return []any{
		figure(p.AtS), figure(p.RPS), rate, figure(p.AvgLatencyMS), figure(p.P95MS), figure(p.ErrorRate),
		bounded(string(p.State), 32), bounded(string(p.Algorithm), 32),
	}
}

func compactSwitchOf(s Switch) compactSwitch {
	return compactSwitch{
		Scenario: bounded(s.Scenario, 32), AtS: figure(s.AtS), State: traffic.State(bounded(string(s.State), 32)),
		From: balance.Algorithm(bounded(string(s.From), 32)), To: balance.Algorithm(bounded(string(s.To), 32)), Outcome: s.Outcome,
		P95MS:     [2]figure{figure(s.Before.P95MS), figure(s.After.P95MS)},
		RPS:       [2]figure{figure(s.Before.RPS), figure(s.After.RPS)},
		ErrorRate: [2]figure{figure(s.Before.ErrorRate), figure(s.After.ErrorRate)},
	}
}

// boundedAttempt shortens what an earlier version changed and why it was judged so.
func boundedAttempt(a Attempt, text int) Attempt {
	changes := []string{}
	for _, c := range a.Changes[:min(len(a.Changes), 6)] {
		changes = append(changes, bounded(c, 80))
	}
	return Attempt{Version: a.Version, Changes: changes, Outcome: bounded(a.Outcome, 20), Why: bounded(a.Why, text)}
}
