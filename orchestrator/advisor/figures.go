package advisor

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
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
)

// known is one figure of the evidence.
type known struct {
	value    float64
	quantity quantity
	kind     string // "p95", "rps", …: two figures are set against each other only within one kind
	scenario string // empty: of the rule set, or of no scenario
	arms     []string
}

// knownFigures lists every figure of the evidence.
func knownFigures(e Evidence) []known {
	out := ruleFigures(e.Champion)
	for _, m := range append(append([]Measured{}, e.Scenarios...), e.Algorithms...) {
		out = append(out, measuredFigures(m)...)
	}
	for _, p := range e.Series {
		add := adder(&out, p.Scenario, p.Algorithm)
		add(p.AtS, seconds, "at")
		add(p.RPS, rate, "rps")
		add(p.AvgLatencyMS, latency, "avg")
		add(p.P95MS, latency, "p95")
		add(p.ErrorRate, share, "error")
		if p.RPSChangeRate != nil {
			add(*p.RPSChangeRate, change, "change")
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

// ruleFigures are the thresholds and settings of a rule set.
func ruleFigures(r rules.RuleSet) []known {
	out := []known{{value: float64(r.Version), quantity: count}}
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
		out = append(out, textFigures(rule.Reason)...)
	}
	return out
}

// textFigures are the figures that a text of an earlier version names.
func textFigures(text string) []known {
	var out []known
	for _, f := range figuresIn(text) {
		for _, q := range f.quantities() {
			if f.unit == "" && (q == share || q == change) {
				continue // "3 pairs" are no 300%
			}
			out = append(out, known{value: f.in(q), quantity: q})
		}
	}
	return out
}

// named is a figure that a reason names.
type named struct {
	text  string // as it stands there, with its unit
	value float64
	unit  string
	off   float64 // half of its last digit
}

// figureRE takes a number with an optional unit. What stands before it decides whether it is part of a name, such as
// p95, P2C, v9 or server-1, and no figure.
var figureRE = regexp.MustCompile(`(?i)[-+−]?\d[\d,]*(?:\.\d+)?(?:\s?(?:%|percentage points?|percent|points?|ms|milliseconds?|s|seconds?|rps|req/s|requests per second|x|×|times)(?:[^\pL\d]|$))?`)

// figuresIn finds the figures of a text.
func figuresIn(text string) []named {
	var out []named
	for _, at := range figureRE.FindAllStringIndex(text, -1) {
		if partOfName(text, at[0], at[1]) {
			continue
		}
		if f, is := readFigure(text[at[0]:at[1]]); is {
			out = append(out, f)
		}
	}
	return out
}

// partOfName reports whether a letter, a digit or an underscore touches the number: p95, P2C, v9, server-1, 5xx.
func partOfName(text string, from, to int) bool {
	letter := func(c byte) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	span := from > 0 && !digit(text[from]) && digit(text[from-1]) // the second half of "10-20 ms"
	if from > 0 && letter(text[from-1]) && !span {
		return true
	}
	last := text[to-1]
	return to < len(text) && letter(text[to]) && digit(last)
}

func readFigure(text string) (named, bool) {
	text = strings.TrimRight(text, " .,;:)]!?\"'\n\t")
	number := strings.ReplaceAll(text, "−", "-")
	end := strings.IndexFunc(number, func(r rune) bool { return !strings.ContainsRune("+-0123456789.,", r) })
	unit := ""
	if end >= 0 {
		number, unit = number[:end], strings.ToLower(strings.TrimSpace(number[end:]))
	}
	number = strings.ReplaceAll(strings.TrimRight(number, ",."), ",", "")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return named{}, false
	}
	decimals := 0
	if _, after, found := strings.Cut(number, "."); found {
		decimals = len(after)
	}
	return named{text: text, value: v, unit: unit, off: 0.5 * math.Pow10(-decimals)}, true
}

// quantities is what a figure of that unit may measure.
func (f named) quantities() []quantity {
	switch f.unit {
	case "%", "percent":
		return []quantity{share, change}
	case "point", "points", "percentage point", "percentage points":
		return []quantity{share}
	case "ms", "millisecond", "milliseconds":
		return []quantity{latency}
	case "s", "second", "seconds":
		return []quantity{seconds, latency}
	case "rps", "req/s", "requests per second":
		return []quantity{rate}
	case "x", "×", "times":
		return []quantity{change, count}
	}
	return []quantity{latency, rate, share, change, count, seconds}
}

// in is the figure's value in the unit in which that quantity is kept.
func (f named) in(q quantity) float64 { return f.value * f.scale(q) }

func (f named) scale(q quantity) float64 {
	switch {
	case f.unit == "%" || f.unit == "percent" || strings.Contains(f.unit, "point"):
		return 0.01
	case strings.HasPrefix(f.unit, "s") && q == latency:
		return 1000
	}
	return 1
}
