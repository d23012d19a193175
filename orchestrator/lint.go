package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"retune/orchestrator/advisor"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// examiner says what is known of a rule set before any load: what the lint and a replay find, and how rules that do the
// same were judged, in all cycles that there were.
type examiner struct {
	champion int // the version in force
	rules    rules.RuleSet
	series   []traffic.Snapshot // of the baseline, each run's after the other
	judged   func(context.Context, rules.RuleSet) ([]advisor.Attempt, error)
}

// examined is what came out.
type examined struct {
	remarks []rules.Remark
	replay  steering.Report
	why     string // it is worth no trial; empty: it is
}

// examine finds all that speaks against a rule set. The first of these decides: it changes nothing, rules that do the
// same were judged worse, it contradicts itself or flaps.
func (x examiner) examine(ctx context.Context, rs rules.RuleSet) (e examined, err error) {
	e.remarks, e.replay = steering.Lint(rs, x.series)
	known, err := x.remember(ctx, rs)
	if err != nil {
		return e, err
	}
	e.remarks = append(e.remarks, known...)
	if refused := rules.Refused(e.remarks); len(refused) > 0 {
		e.why = "refused without a trial: " + sentences(refused)
	}
	if len(rules.Refused(known)) > 0 {
		e.why = "no change: " + known[0].Text
	}
	if rules.Same(rs, x.rules) {
		e.why = fmt.Sprintf("no change: the proposal does what v%d does", x.champion)
	}
	return e, nil
}

// remember is how the latest candidate that did the same was judged. Worse: it is not tried again. Inconclusive: it may be,
// and that is said. Kept, or never judged: nothing.
func (x examiner) remember(ctx context.Context, rs rules.RuleSet) ([]rules.Remark, error) {
	tried, err := x.judged(ctx, rs)
	if err != nil {
		return nil, fmt.Errorf("reading what was tried: %w", err)
	}
	var open *advisor.Attempt // inconclusive ones take back no verdict before them
	for i, t := range tried {
		switch t.Outcome {
		case string(Kept):
			return nil, nil
		case string(RolledBack):
			return []rules.Remark{{Severity: rules.Refuse, Path: "rules", Text: fmt.Sprintf("the proposal does what v%d does, which was rolled back: %s", t.Version, t.Why),
				Fix: "propose something else, or force the trial"}}, nil
		case string(Inconclusive):
			if open == nil {
				open = &tried[i]
			}
		}
	}
	if open == nil {
		return nil, nil
	}
	return []rules.Remark{{Severity: rules.Warn, Path: "rules", Text: fmt.Sprintf("the proposal does what v%d does, on which a cycle was inconclusive: %s", open.Version, open.Why),
		Fix: "it is tried again: more pairs may tell"}}, nil
}

// faults is what a model is told of a rule set that would be refused, so that it can answer with another; nil: nothing is
// wrong. Keeping the champion's rules is an answer. Verdicts are not quoted: they may name scenarios that it must not know.
func (x examiner) faults(ctx context.Context, rs rules.RuleSet) (wrong []string) {
	if rules.Same(rs, x.rules) {
		return nil
	}
	remarks, _ := steering.Lint(rs, x.series)
	for _, f := range rules.Refused(remarks) {
		wrong = append(wrong, f.String())
	}
	if known, err := x.remember(ctx, rs); err == nil && len(rules.Refused(known)) > 0 { // what can't be read now is read again before the trial
		wrong = append(wrong, `rules: an earlier version that does the same was rolled back (see "tried"); propose something else, or keep the champion's rules`)
	}
	return wrong
}

func sentences(all []rules.Remark) string {
	texts := make([]string, len(all))
	for i, f := range all {
		texts[i] = f.String()
	}
	return strings.Join(texts, ". ")
}
