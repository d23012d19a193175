package advisor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"retune/orchestrator/switchlog"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// MaxTokens is how much a generator is told at most, by Tokens' estimate.
const MaxTokens = 2000

// Compact writes evidence as JSON of at most MaxTokens, whatever it holds. What doesn't fit is dropped, the least
// useful first: points of the series, then older attempts and switches, then slow algorithms, then texts; in the end every
// measurement. Figures have three digits; texts of earlier versions are quoted and bounded. One figure per scenario
// stands in lists, in the order of "scenarios"; null means not measured.
func Compact(e Evidence) string {
	for _, r := range rooms {
		text := encode(document(e, r))
		if Tokens(text) <= MaxTokens {
			return text
		}
	}
	return encode(document(Evidence{Champion: e.Champion}, rooms[len(rooms)-1]))
}

// room is how many of each thing a document has room for.
type room struct{ points, switches, tried, algorithms, scenarios, text int }

// rooms from the most to the least that is told.
var rooms = []room{
	{32, 8, 8, 10, 8, 160}, {20, 8, 8, 10, 8, 160}, {20, 6, 6, 10, 8, 120}, {14, 5, 5, 10, 8, 100},
	{12, 4, 5, 8, 8, 100}, {10, 4, 4, 6, 8, 80}, {8, 3, 4, 5, 6, 80}, {6, 2, 3, 4, 6, 60}, {4, 2, 2, 3, 4, 50},
	{0, 1, 2, 3, 4, 40}, {0, 0, 1, 2, 3, 20}, {0, 0, 0, 1, 2, 0},
}

// Tokens estimates from above how many tokens a model's tokenizer makes of text: one for each sign of
// punctuation, one for each three letters or three digits begun, two for each character that is not ASCII. Byte-pair
// tokenizers (cl100k, o200k) join signs such as `":` and take whole words as one, so the true count is lower.
func Tokens(text string) int {
	n, run, class := 0, 0, 0
	for _, r := range text {
		c := classOf(r)
		if c != class {
			run = 0
		}
		class = c
		switch c {
		case word, digit:
			if run%3 == 0 {
				n++
			}
			run++
		case sign:
			n++
		case foreign:
			n += 2
		}
	}
	return n
}

const (
	space = iota
	word
	digit
	sign
	foreign
)

func classOf(r rune) int {
	switch {
	case r > 127:
		return foreign
	case r == ' ':
		return space
	case r >= '0' && r <= '9':
		return digit
	case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		return word
	}
	return sign
}

// figure is a number of three significant digits; NaN, infinities and what becomes one by rounding are null.
type figure float64

// MarshalJSON writes it without an exponent where that is short.
func (f figure) MarshalJSON() ([]byte, error) {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 3, 64), 64) // out of range: infinite
	if math.IsNaN(short) || math.IsInf(short, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(short)
}

type compactDoc struct {
	Profile    string                     `json:"profile"`
	Champion   compactRules               `json:"champion"`
	Scenarios  []string                   `json:"scenarios"`
	Measured   compactArm                 `json:"measured_under_champion"`
	States     []map[traffic.State]figure `json:"share_of_windows_in_state"`
	Algorithms *compactTable              `json:"measured_with_fixed_algorithm,omitempty"`
	Series     []compactSeries            `json:"series,omitempty"`
	Switches   []compactSwitch            `json:"switches,omitempty"`
	Detection  *compactDetection          `json:"detection,omitempty"`
	Tried      []Attempt                  `json:"tried,omitempty"`
}

type compactRules struct {
	Version    int                        `json:"version"`
	Thresholds map[string]string          `json:"thresholds"`
	Rules      map[traffic.State][]string `json:"rules"` // algorithm, reason
}

// compactArm has one figure per scenario in each list.
type compactArm struct {
	RPS       []*figure `json:"rps"`
	AvgMS     []*figure `json:"avg_ms"`
	P95MS     []*figure `json:"p95_ms"`
	P99MS     []*figure `json:"p99_ms"`
	ErrorRate []*figure `json:"error_rate"`
}

type compactTable struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

type compactSeries struct {
	Scenario string `json:"scenario"`
	compactTable
}

type compactSwitch struct {
	Scenario  string            `json:"scenario"`
	AtS       figure            `json:"at_s"`
	State     traffic.State     `json:"state"`
	From      balance.Algorithm `json:"from"`
	To        balance.Algorithm `json:"to"`
	P95MS     [2]figure         `json:"p95_ms_before_after"`
	RPS       [2]figure         `json:"rps_before_after"`
	ErrorRate [2]figure         `json:"error_rate_before_after"`
	Outcome   switchlog.Outcome `json:"outcome"` // paid, cost or unclear
}

func encode(d compactDoc) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		panic("advisor: a document of plain values does not encode: " + err.Error())
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// document lays evidence out within a room.
func document(e Evidence, r room) compactDoc {
	scenarios := firstOfEach(e.Scenarios)
	scenarios = scenarios[:min(len(scenarios), r.scenarios)]
	d := compactDoc{Profile: bounded(e.Profile, 32), Champion: compactRulesOf(e.Champion, r.text)}
	at := map[string]int{}
	for i, m := range scenarios {
		at[m.Scenario] = i
		d.Scenarios = append(d.Scenarios, bounded(m.Scenario, 32))
		d.States = append(d.States, sharesOf(m.States))
	}
	d.Measured = armOf(scenarios, at)
	fastest := algorithmsOf(e)
	d.Algorithms = algorithmTable(e, fastest[:min(len(fastest), r.algorithms)], at)
	d.Series = seriesOf(evenly(e.Series, r.points))
	for _, s := range evenly(e.Switches, r.switches) {
		d.Switches = append(d.Switches, compactSwitchOf(s))
	}
	if r.points > 0 {
		d.Detection = compactDetectionOf(e.Detection)
	}
	for _, t := range e.Tried[:min(len(e.Tried), r.tried)] {
		d.Tried = append(d.Tried, boundedAttempt(t, r.text))
	}
	return d
}

// firstOfEach keeps the first measurement of each scenario: a figure has one place in its list.
func firstOfEach(all []Measured) (out []Measured) {
	seen := map[string]bool{}
	for _, m := range all {
		if !seen[m.Scenario] {
			seen[m.Scenario] = true
			out = append(out, m)
		}
	}
	return out
}

func compactRulesOf(r rules.RuleSet, text int) compactRules {
	out := compactRules{Version: r.Version, Thresholds: map[string]string{}, Rules: map[traffic.State][]string{}}
	for _, t := range thresholds {
		out.Thresholds[t.path] = t.text(r)
	}
	for _, s := range traffic.States() {
		out.Rules[s] = []string{bounded(string(r.Rules[s].Algorithm), 32), bounded(r.Rules[s].Reason, text)}
	}
	return out
}

// algorithmsOf lists the fixed algorithms that were measured, the fastest by geometric mean of p95 first.
func algorithmsOf(e Evidence) []balance.Algorithm {
	sum, n := map[balance.Algorithm]float64{}, map[balance.Algorithm]float64{}
	var out []balance.Algorithm
	for _, m := range e.Algorithms {
		if n[m.Algorithm] == 0 {
			out = append(out, m.Algorithm)
		}
		n[m.Algorithm]++
		sum[m.Algorithm] += math.Log(max(m.P95MS, 1e-3))
	}
	slices.SortStableFunc(out, func(a, b balance.Algorithm) int {
		return cmp.Compare(sum[a]/n[a], sum[b]/n[b])
	})
	return out
}
