package advisor

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/ruleversions"
)

// smallCount is the largest whole number without a unit that needs no evidence, as in "2 windows" or "3 of 4 scenarios".
const smallCount = 10

// CheckReasons looks each figure of the reasons up in the evidence, and lists in Unsupported those that are not there.
//
// A figure is supported when it is in the evidence to the digits that the reason gives (or within 1%), or is the
// difference, the ratio or the percentage of two figures of one kind (p95 with p95) from one scenario, or from two that
// the reason names. Where a reason names scenarios, algorithms or metrics, only the figures of those count: a true
// figure of another scenario is no support. Two points of the series are set against each other only where the reason
// names both, because among many points any difference is found. Thresholds and settings of the champion and of the
// proposal count as evidence, as do figures of earlier verdicts; what the proposal's reasons name does not. Signs and
// words of direction ("lower") are not checked, nor numbers in words. The reasons that come in are not changed.
func CheckReasons(reasons []ruleversions.Reason, e Evidence, proposal rules.RuleSet) []ruleversions.Reason {
	all := append(knownFigures(e), settingFigures(proposal)...)
	scenarios := scenariosOf(e)
	out := slices.Clone(reasons)
	for i := range out {
		out[i].Unsupported = unsupported(out[i].Text, all, scenarios)
	}
	return out
}

// unsupported lists the figures of a text that are not among those of the evidence.
func unsupported(text string, all []known, scenarios []string) (list []string) {
	figures := figuresIn(text)
	s := subject(text, figures, all, scenarios)
	for _, f := range figures {
		if !f.supported(s, figures) && !slices.Contains(list, f.text) {
			list = append(list, f.text)
		}
	}
	return list
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

// metrics are the kinds of figures that a reason names by these words.
var metrics = map[string]*regexp.Regexp{
	"p95":   regexp.MustCompile(`p95|95th`),
	"p99":   regexp.MustCompile(`p99|99th`),
	"avg":   regexp.MustCompile(`\bavg|average|\bmean\b`),
	"rps":   regexp.MustCompile(`rps|qps|throughput|req(uest)?s?(/| per | a )s|\d( requests|/s)`),
	"error": regexp.MustCompile(`error|5xx|\bfail(s|ed|ing|ures)?\b|failure rate`), // "failure" is a scenario
}

var latencies = []string{"p95", "p99", "avg"}

// metricsIn lists the kinds that a reason, in lower case, names. Where it names some but no latency, a time may be any of them.
func metricsIn(lower string, figures []named) (kinds []string) {
	for kind, word := range metrics {
		if word.MatchString(lower) {
			kinds = append(kinds, kind)
		}
	}
	isLatency := func(kind string) bool { return slices.Contains(latencies, kind) }
	isTime := func(f named) bool { return f.unit != "" && f.by[latency] > 0 }
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, isLatency) && slices.ContainsFunc(figures, isTime) {
		kinds = append(kinds, latencies...)
	}
	return kinds
}

// about is what a reason can be about.
type about struct {
	figures []known
	pairs   [][2]known // of one kind, that may be set against each other
}

// subject keeps the figures that a reason can be about, by the scenarios, algorithms and metrics that it names.
func subject(text string, figures []named, all []known, scenarios []string) about {
	lower := strings.ToLower(text)
	named := slices.DeleteFunc(slices.Clone(scenarios), func(s string) bool { return !hasWord(lower, strings.ToLower(s)) })
	var algorithms []string
	for _, a := range balance.Algorithms() {
		if hasWord(lower, strings.ToLower(string(a))) {
			algorithms = append(algorithms, string(a))
		}
	}
	kinds := metricsIn(lower, figures)
	var out about
	for _, k := range all {
		switch {
		case len(kinds) > 0 && metrics[k.kind] != nil && !slices.Contains(kinds, k.kind):
		case k.scenario != "" && len(named) > 0 && !slices.Contains(named, k.scenario):
		case len(k.arms) > 0 && len(algorithms) > 0 && !slices.Contains(algorithms, k.arms[0]):
		default:
			out.figures = append(out.figures, k)
		}
	}
	out.pairs = pairsOf(out.figures, len(named) > 1)
	return out
}

// pairsOf lists the figures of one kind in pairs: from one scenario, or across several where a reason names them.
func pairsOf(figures []known, across bool) (pairs [][2]known) {
	of := map[[2]string][]known{}
	for _, k := range figures {
		key := [2]string{k.kind, k.scenario}
		if across {
			key[1] = ""
		}
		if k.kind == "" {
			continue
		}
		for _, other := range of[key] {
			pairs = append(pairs, [2]known{other, k})
		}
		of[key] = append(of[key], k)
	}
	return pairs
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

// supported reports whether the figure is one of those that the reason is about, or follows from two of them; others are all
// the figures that the reason names.
func (f named) supported(s about, others []named) bool {
	if f.bare && f.unit == "" && f.value == math.Trunc(f.value) && math.Abs(f.value) <= smallCount {
		return true
	}
	if slices.ContainsFunc(s.figures, f.is) {
		return true
	}
	said := func(k known) bool {
		return slices.ContainsFunc(others, func(o named) bool { return o.is(k) })
	}
	for _, p := range s.pairs {
		if f.derived(p[0], p[1]) && (!p[0].series && !p[1].series || said(p[0]) && said(p[1])) {
			return true
		}
	}
	return false
}

// is reports whether the figure means k, to its own digits or within 1%; the sign of what is named doesn't count, because
// "35% lower" and "-35%" say the same.
func (f named) is(k known) bool { return f.means(k.value, k.quantity) }

func (f named) means(x float64, q quantity) bool {
	factor := f.by[q]
	if factor == 0 || math.IsNaN(x-x) || math.IsNaN(f.value-f.value) { // NaN or infinite
		return false
	}
	off := max(f.off*factor*(1+1e-9), 0.01*math.Abs(x))
	return math.Abs(math.Abs(f.value*factor)-math.Abs(x)) <= off
}

// derived reports whether the figure is the difference, ratio or percentage of a and b.
func (f named) derived(a, b known) bool {
	ratio := func(less float64) bool {
		return a.value != 0 && f.means(b.value/a.value-less, change) || b.value != 0 && f.means(a.value/b.value-less, change)
	}
	switch f.unit {
	case "%":
		return ratio(1) || a.quantity == share && f.means(a.value-b.value, share)
	case "×":
		return ratio(0)
	}
	return f.means(a.value-b.value, a.quantity)
}
