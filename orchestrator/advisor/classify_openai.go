package advisor

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"retune/prompts"
	"retune/proxy/traffic"
)

// classifyTemperature is what a labelling is asked with: less varied than a rule set.
const classifyTemperature = 0.2

// patternAnswer is what a model is asked for when it labels; its JSON schema is made from it.
type patternAnswer struct {
	Segments []segment `json:"segments"`
}

// segment is consecutive windows of one series in one state, both ends included and counted from 1.
type segment struct {
	Series int           `json:"series"`
	From   int           `json:"from"`
	To     int           `json:"to"`
	State  traffic.State `json:"state"`
}

// JSONSchemaExtend names the states that there are.
func (segment) JSONSchemaExtend(s *jsonschema.Schema) {
	s.Properties.Value("state").Enum = anyOf(traffic.States())
}

// Classify has the model label recorded windows, with at most two more turns that hand back what is wrong with an
// answer. It is told neither scenarios' names nor what the proxy named the windows; windows that don't fit into
// MaxTokens are not shown to it and get no label.
func (o *openAI) Classify(ctx context.Context, cycle int64, series [][]traffic.Snapshot) (Labels, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Total)
	defer cancel()
	text, shown := patternText(series)
	rec := o.recorder(cycle, patternSHA())
	t := o.talk(rec, patternForm(), classifyTemperature, prompts.Patterns, text)
	l := Labels{Author: o.Model}
	err := t.converse(ctx, func(text string, c *Call) (err error) {
		l.States, c.Outcome, err = parsePatterns(text, shown)
		return err
	})
	l.Calls = rec.calls
	if err != nil {
		return l, o.keyless(rec, err)
	}
	return l, nil
}

// patternSHA is the SHA-256 of all that a model is told beside the series.
func patternSHA() string {
	return sha([]byte(prompts.Patterns + "\x00" + prompts.Repair + "\x00" + string(patternForm().json)))
}

// patternText lays the series out for a model, and says how many windows of each it holds: the ends of the longest are
// left out until the text has MaxTokens at most.
func patternText(series [][]traffic.Snapshot) (text string, shown []int) {
	for _, s := range series {
		shown = append(shown, len(s))
	}
	for {
		text = patternJSON(series, shown)
		longest := slices.Index(shown, slices.Max(append([]int{0}, shown...)))
		if longest < 0 || shown[longest] == 0 || Tokens(text) <= MaxTokens {
			return text, shown
		}
		shown[longest]--
	}
}

type patternSeries struct {
	Series  int    `json:"series"`
	WindowS figure `json:"window_s"`
	compactTable
}

func patternJSON(series [][]traffic.Snapshot, shown []int) string {
	columns := []string{"window", "rps", "rps_change_rate", "avg_latency_ms", "p95_ms", "error_rate", "worst_backend_error_rate", "worst_backend_latency_ratio"}
	all := []patternSeries{}
	for i, s := range series {
		p := patternSeries{Series: i + 1, compactTable: compactTable{Columns: columns, Rows: [][]any{}}}
		for k, w := range s[:shown[i]] {
			p.WindowS = figure(w.Window.Seconds())
			p.Rows = append(p.Rows, patternRow(k+1, w))
		}
		all = append(all, p)
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(map[string]any{"series": all}); err != nil {
		panic("advisor: series of plain values do not encode: " + err.Error())
	}
	return strings.TrimSpace(b.String())
}

func patternRow(n int, w traffic.Snapshot) []any {
	var rate, ratio any
	if w.RPSChangeRate != nil {
		rate = figure(*w.RPSChangeRate)
	}
	errors, slowest := 0.0, 0.0
	for _, b := range w.Backends {
		if b.Requests < traffic.MinVolume {
			continue
		}
		errors = max(errors, b.ErrorRate)
		if b.LongAvgLatencyMS > 0 {
			slowest = max(slowest, b.AvgLatencyMS/b.LongAvgLatencyMS)
		}
	}
	if slowest > 0 {
		ratio = figure(slowest)
	}
	return []any{n, figure(w.RPS), rate, figure(w.AvgLatencyMS), figure(w.P95MS), figure(w.ErrorRate), figure(errors), ratio}
}

// parsePatterns reads a model's labels: tolerant where the meaning is plain, strict in the result. shown is how many
// windows of each series have to be labelled, each exactly once.
func parsePatterns(text string, shown []int) ([][]traffic.State, CallOutcome, error) {
	object, err := patternForm().find(text)
	if err != nil {
		return nil, CallInvalidJSON, err
	}
	list := asList(object["segments"])
	object["segments"] = list
	for _, s := range list {
		if segment, is := s.(map[string]any); is {
			asName(segment, "state")
		}
	}
	if err := patternForm().check(object); err != nil {
		return nil, CallInvalidRules, err
	}
	b, err := json.Marshal(object)
	if err != nil {
		return nil, CallInvalidJSON, err
	}
	var a patternAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, CallInvalidJSON, faults{"a number is none that windows or series could have"}
	}
	states, wrong := a.states(shown)
	if len(wrong) > 0 {
		return nil, CallInvalidRules, wrong
	}
	return states, CallOK, nil
}

// states puts the segments' labels to their windows.
func (a patternAnswer) states(shown []int) ([][]traffic.State, faults) {
	var wrong faults
	out := make([][]traffic.State, len(shown))
	for i, n := range shown {
		out[i] = make([]traffic.State, n)
	}
	for _, s := range a.Segments {
		if len(wrong) >= maxFaults {
			return nil, append(wrong, "and more of the same")
		}
		if s.Series < 1 || s.Series > len(shown) || s.From < 1 || s.To < s.From || s.To > shown[s.Series-1] {
			wrong.add("segments: windows %d to %d of series %d are not there", s.From, s.To, s.Series)
			continue
		}
		for i := s.From - 1; i < s.To; i++ {
			if out[s.Series-1][i] != "" {
				wrong.add("segments: window %d of series %d is in two", i+1, s.Series)
				break
			}
			out[s.Series-1][i] = s.State
		}
	}
	for i := range out {
		if k := slices.Index(out[i], ""); k >= 0 {
			wrong.add("segments: window %d of series %d is in none; it has %d windows", k+1, i+1, shown[i])
		}
	}
	return out, wrong
}
