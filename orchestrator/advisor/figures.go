package advisor

import (
	"slices"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/ruleversions"
)

// quantity is what a figure measures; figures are compared with others of the same quantity alone.
type quantity int

const (
	latency quantity = iota // milliseconds
	rate                    // requests per second
	share                   // of requests or windows, 0..1
	change                  // a change rate or ratio
	count                   // anything else: windows, switches, versions, factors
	seconds
	unsaid // a figure of a text without a unit: it may be anything, and so speaks for no unit
)

// known is one figure of the evidence.
type known struct {
	value    float64
	quantity quantity
	kind     string // "p95", "rps", …: two figures are set against each other only within one kind
	scenario string // empty: of the rule set, or of no scenario
	arms     []string
	series   bool // one of many points: a difference from it counts only where the reason names both figures
}

// knownFigures lists every figure of the evidence.
func knownFigures(e Evidence) []known {
	out := ruleFigures(e.Champion)
	for _, m := range append(append([]Measured{}, e.Scenarios...), e.Algorithms...) {
		out = append(out, measuredFigures(m)...)
	}
	for _, p := range e.Series {
		from := len(out)
		add := adder(&out, p.Scenario, p.Algorithm)
		add(p.AtS, seconds, "at")
		add(p.RPS, rate, "rps")
		add(p.AvgLatencyMS, latency, "avg")
		add(p.P95MS, latency, "p95")
		add(p.ErrorRate, share, "error")
		if p.RPSChangeRate != nil {
			add(*p.RPSChangeRate, change, "change")
		}
		for i := range out[from:] {
			out[from+i].series = true
		}
	}
	for _, s := range e.Switches {
		for _, side := range []struct {
			f Figures
			a balance.Algorithm
		}{{s.Before, s.From}, {s.After, s.To}} {
			add := adder(&out, s.Scenario, side.a)
			add(side.f.RPS, rate, "rps")
			add(side.f.P95MS, latency, "p95")
			add(side.f.ErrorRate, share, "error")
		}
		add := adder(&out, s.Scenario, "")
		add(s.AtS, seconds, "at")
		add(s.Confident, share, "confidence")
	}
	out = append(out, detectionFigures(e.Detection)...)
	for _, a := range e.Tried {
		out = append(out, known{value: float64(a.Version), quantity: count})
		for _, text := range append([]string{a.Why}, a.Changes...) {
			out = append(out, textFigures(text)...)
		}
	}
	return out
}

func adder(out *[]known, scenario string, a balance.Algorithm) func(float64, quantity, string) {
	return func(v float64, q quantity, kind string) {
		k := known{value: v, quantity: q, kind: kind, scenario: scenario}
		if a != "" {
			k.arms = []string{string(a)}
		}
		*out = append(*out, k)
	}
}

func measuredFigures(m Measured) []known {
	var out []known
	add := adder(&out, m.Scenario, m.Algorithm)
	add(m.RPS, rate, "rps")
	add(m.AvgMS, latency, "avg")
	add(m.P95MS, latency, "p95")
	add(m.P99MS, latency, "p99")
	add(m.ErrorRate, share, "error")
	for s, x := range m.States {
		add(x, share, string(s))
	}
	return out
}

// ruleFigures are the figures of the champion: its settings, and what its reasons name.
func ruleFigures(r rules.RuleSet) []known {
	out := append(settingFigures(r), known{value: float64(r.Version), quantity: count})
	for _, rule := range r.Rules {
		said, doubted := ruleversions.Unmarked(rule.Reason)
		for _, f := range figuresIn(said) {
			if !slices.Contains(doubted, f.text) { // what was never in any evidence does not become true by being repeated
				out = append(out, f.known()...)
			}
		}
	}
	return out
}

// settingFigures are the thresholds and decays of a rule set.
func settingFigures(r rules.RuleSet) (out []known) {
	for _, t := range thresholds {
		switch p := t.field(&r).(type) {
		case *float64:
			out = append(out, known{value: *p, quantity: share}, known{value: *p, quantity: change}, known{value: *p, quantity: count}, known{value: *p, quantity: rate})
		case *int:
			out = append(out, known{value: float64(*p), quantity: count})
		case *time.Duration:
			out = append(out, known{value: p.Seconds(), quantity: seconds}, known{value: p.Seconds() * 1000, quantity: latency})
		}
	}
	for _, rule := range r.Rules {
		if d := rule.Params.Decay; d > 0 {
			out = append(out, known{value: d.Seconds(), quantity: seconds})
		}
	}
	return out
}

// textFigures are the figures that a text of an earlier version names.
func textFigures(text string) []known {
	var out []known
	for _, f := range figuresIn(text) {
		out = append(out, f.known()...)
	}
	return out
}

// known is what a figure of a text may stand for.
func (f named) known() []known {
	if f.unit == "" {
		return []known{{value: f.value, quantity: unsaid}}
	}
	var out []known
	for i, factor := range f.by {
		if factor != 0 {
			out = append(out, known{value: f.value * factor, quantity: quantity(i)})
		}
	}
	return out
}
