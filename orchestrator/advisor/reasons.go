package advisor

import (
	"math"
	"slices"
	"strings"

	"retune/proxy/balance"
	"retune/ruleversions"
)

// smallCount is the largest whole number without a unit that needs no evidence, as in "2 windows" or "3 of 4 scenarios".
const smallCount = 10

// CheckReasons looks each figure of the reasons up in the evidence, and lists in Unsupported those that are not there.
//
// A figure is supported when it is in the evidence to the digits that the reason gives (or within 1%), or is the
// difference, the ratio or the percentage of two figures of one kind (p95 with p95) from one scenario. Where a reason
// names scenarios or algorithms, only the figures of those count: a true figure of another scenario is no support.
// Thresholds and settings of the champion count as evidence, as do figures of earlier verdicts. The reasons that come
// in are not changed.
func CheckReasons(reasons []ruleversions.Reason, e Evidence) []ruleversions.Reason {
	all := knownFigures(e)
	scenarios := scenariosOf(e)
	out := slices.Clone(reasons)
	for i := range out {
		about := subject(out[i].Text, all, scenarios)
		out[i].Unsupported = nil
		for _, f := range figuresIn(out[i].Text) {
			if !f.supported(about) {
				out[i].Unsupported = append(out[i].Unsupported, f.text)
			}
		}
	}
	return out
}

func scenariosOf(e Evidence) []string {
	var out []string
	for _, m := range append(append([]Measured{}, e.Scenarios...), e.Algorithms...) {
		if m.Scenario != "" && !slices.Contains(out, m.Scenario) {
			out = append(out, m.Scenario)
		}
	}
	return out
}

// metricKinds are the kinds that a reason names by these words.
var metricKinds = []string{"p95", "p99", "rps", "error", "avg"}

// subject keeps the figures that a reason can be about, by the scenarios, algorithms and metrics that it names.
func subject(text string, all []known, scenarios []string) []known {
	lower := strings.ToLower(text)
	named := slices.DeleteFunc(slices.Clone(scenarios), func(s string) bool { return !hasWord(lower, strings.ToLower(s)) })
	var algorithms []string
	for _, a := range balance.Algorithms() {
		if hasWord(lower, strings.ToLower(string(a))) {
			algorithms = append(algorithms, string(a))
		}
	}
	metrics := slices.DeleteFunc(slices.Clone(metricKinds), func(m string) bool { return !strings.Contains(lower, m) })
	var out []known
	for _, k := range all {
		switch {
		case len(metrics) > 0 && slices.Contains(metricKinds, k.kind) && !slices.Contains(metrics, k.kind):
		case k.scenario != "" && len(named) > 0 && !slices.Contains(named, k.scenario):
		case len(k.arms) > 0 && len(algorithms) > 0 && !slices.Contains(algorithms, k.arms[0]):
		default:
			out = append(out, k)
		}
	}
	return out
}

// hasWord reports whether word stands in text by itself: ROUND_ROBIN is not in WEIGHTED_ROUND_ROBIN.
func hasWord(text, word string) bool {
	inWord := func(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		if (i == 0 || !inWord(text[i-1])) && (end == len(text) || !inWord(text[end])) {
			return true
		}
		from = i + 1
	}
}

func (f named) supported(about []known) bool {
	if f.unit == "" && f.value == math.Trunc(f.value) && math.Abs(f.value) <= smallCount {
		return true
	}
	for _, k := range about {
		if slices.Contains(f.quantities(), k.quantity) && f.is(k.value, k.quantity) {
			return true
		}
	}
	for i, a := range about {
		for _, b := range about[i+1:] {
			if a.kind != "" && a.kind == b.kind && a.scenario == b.scenario && f.derived(a, b) {
				return true
			}
		}
	}
	return false
}

// is reports whether the figure means x, to its own digits or within 1%; the sign of what is named doesn't count, because
// "35% lower" and "-35%" say the same.
func (f named) is(x float64, q quantity) bool {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return false
	}
	scale := f.scale(q)
	off := max(f.off*scale*(1+1e-9), 0.01*math.Abs(x))
	return math.Abs(math.Abs(f.value*scale)-math.Abs(x)) <= off
}

// derived reports whether the figure is the difference, ratio or percentage of a and b.
func (f named) derived(a, b known) bool {
	q := a.quantity
	switch {
	case f.unit == "%" || f.unit == "percent":
		return a.value != 0 && f.is(b.value/a.value-1, change) || b.value != 0 && f.is(a.value/b.value-1, change)
	case f.unit == "x" || f.unit == "×" || f.unit == "times":
		return a.value != 0 && f.is(b.value/a.value, change) || b.value != 0 && f.is(a.value/b.value, change)
	case f.unit == "" || slices.Contains(f.quantities(), q):
		return f.is(a.value-b.value, q)
	}
	return false
}
