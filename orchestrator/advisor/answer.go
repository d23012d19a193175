package advisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// answer is what a model is asked for; its JSON schema is made from it.
type answer struct {
	Summary    string            `json:"summary"`
	Rules      []answerRule      `json:"rules"`
	Thresholds []answerThreshold `json:"thresholds"`
}

type answerRule struct {
	State     traffic.State     `json:"state"`
	Algorithm balance.Algorithm `json:"algorithm"`
	Reason    string            `json:"reason"`
	Decay     string            `json:"decay"` // a duration, or empty
}

type answerThreshold struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

const (
	maxAnswer = 256 << 10 // bytes of one answer's text
	maxText   = 600       // characters of a summary or reason; a little more than what is asked for
)

// faults is everything wrong with an answer, each a sentence that a model can act on.
type faults []string

func (f faults) Error() string { return strings.Join(f, "; ") }

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// parseAnswer reads a model's text. It is tolerant where the meaning is plain (a code fence, prose around the object, a
// scalar where a list belongs, lower-case names), and strict in the result: what it returns fits the schema. The
// outcome says at which of the two it failed.
func parseAnswer(text string) (answer, CallOutcome, error) {
	object, err := ruleForm().find(text)
	if err != nil {
		return answer{}, CallInvalidJSON, err
	}
	normalise(object)
	if err := ruleForm().check(object); err != nil {
		return answer{}, CallInvalidRules, err
	}
	b, err := json.Marshal(object)
	if err != nil {
		return answer{}, CallInvalidJSON, err
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return answer{}, CallInvalidJSON, err
	}
	return a, CallOK, nil
}

// apply makes the champion's rule set into the one that the answer describes, and validates it whole.
func (a answer) apply(champion rules.RuleSet) (rules.RuleSet, error) {
	var wrong faults
	out := champion
	out.Version, out.Parent, out.Origin = champion.Version+1, champion.Version, rules.OriginLLM
	out.Rules = a.rules(&wrong)
	a.changeThresholds(&out, &wrong)
	if n := utf8.RuneCountInString(a.Summary); n > maxText {
		wrong.add("summary: %d characters, at most %d", n, maxText)
	}
	if len(wrong) > 0 {
		return rules.RuleSet{}, wrong
	}
	return validated(out)
}

// validated passes a rule set through the rule file's own strict reading.
func validated(r rules.RuleSet) (rules.RuleSet, error) {
	parsed, err := rules.Parse("answer", rules.Render(r))
	if err != nil {
		return rules.RuleSet{}, faultsOf(err)
	}
	parsed.Version, parsed.Parent = 0, 0
	return parsed, nil
}

// faultsOf turns the reader's faults into paths and sentences; a model never saw the lines that they name.
func faultsOf(err error) error {
	var read *rules.Faults
	if !errors.As(err, &read) {
		return err
	}
	var wrong faults
	for _, f := range read.List {
		wrong.add("%s: %s. %s", f.Path, f.Text, f.Fix)
	}
	return wrong
}

// rules collects one rule per state; a state named twice or not at all is a fault, never a guess.
func (a answer) rules(wrong *faults) map[traffic.State]rules.Rule {
	out := map[traffic.State]rules.Rule{}
	if len(a.Rules) > len(traffic.States()) {
		wrong.add("rules: %d of them, want %d: one per state", len(a.Rules), len(traffic.States()))
		return out
	}
	for _, r := range a.Rules {
		if _, twice := out[r.State]; twice {
			wrong.add("rules: %s stands there more than once", r.State)
		}
		out[r.State] = r.rule(wrong)
	}
	for _, s := range traffic.States() {
		if _, there := out[s]; !there {
			wrong.add("rules: %s is missing; all five states are needed", s)
		}
	}
	return out
}

func (r answerRule) rule(wrong *faults) rules.Rule {
	where := "rules." + string(r.State)
	checkReason(where, r.Reason, wrong)
	rule := rules.Rule{Algorithm: r.Algorithm, Reason: oneLine(r.Reason)}
	if r.Decay == "" {
		return rule
	}
	d, err := time.ParseDuration(r.Decay)
	if err != nil {
		wrong.add(`%s.decay: %q is no duration such as "5s"; "" means the default`, where, bounded(r.Decay, 40))
	}
	rule.Params.Decay = d
	return rule
}

func (a answer) changeThresholds(out *rules.RuleSet, wrong *faults) {
	seen := map[string]bool{}
	if len(a.Thresholds) > len(thresholds) {
		wrong.add("thresholds: %d of them, there are %d", len(a.Thresholds), len(thresholds))
		return
	}
	for _, t := range a.Thresholds {
		if seen[t.Path] {
			wrong.add("thresholds: %s stands there more than once", t.Path)
		}
		seen[t.Path] = true
		checkReason("thresholds: "+t.Path, t.Reason, wrong)
		if field, known := thresholdAt(t.Path); known {
			if err := field.set(out, t.Value); err != nil {
				wrong.add("%s", err)
			}
		}
	}
}

func checkReason(where, text string, wrong *faults) {
	n := utf8.RuneCountInString(text)
	switch {
	case oneLine(text) == "":
		wrong.add("%s: the reason is empty; it must name figures of the evidence", where)
	case n > maxText:
		wrong.add("%s: the reason has %d characters, at most %d", where, n, maxText)
	}
}

// reasons is why each rule and each changed threshold is as it is.
func (a answer) reasons(champion rules.RuleSet) []ruleversions.Reason {
	var out []ruleversions.Reason
	for _, s := range traffic.States() {
		for _, r := range a.Rules {
			if r.State == s {
				out = append(out, ruleversions.Reason{Path: "rules." + string(s), Text: oneLine(r.Reason)})
			}
		}
	}
	for _, t := range a.Thresholds {
		field, _ := thresholdAt(t.Path)
		after := champion
		if field.set(&after, t.Value) == nil && field.text(after) != field.text(champion) {
			out = append(out, ruleversions.Reason{Path: t.Path, Text: oneLine(t.Reason)})
		}
	}
	return out
}
