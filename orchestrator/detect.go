package orchestrator

import (
	"context"
	"fmt"

	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/proxy/traffic"
)

// Classifier labels recorded windows with traffic states, afterwards. It is a second skill of an Advisor.
type Classifier interface {
	// Classify labels each series, a run's windows oldest first. With an error the Labels still carry the calls that
	// were made.
	Classify(ctx context.Context, cycle int64, series [][]traffic.Snapshot) (advisor.Labels, error)
}

// named sets what the proxies named the windows of a run against the truth, and stores it.
func (u *turn) named(ctx context.Context, m *measured, shape loadtest.Shape) error {
	var known bool
	m.shape = shape
	if m.report, known = detection.Of(shape, m.Result.Started, m.snapshots); !known || len(m.Result.Invalid) > 0 {
		return nil
	}
	if err := u.Notebook.SaveDetection(ctx, m.ID, m.report); err != nil {
		return fmt.Errorf("storing how the traffic of %s was named: %w", m.Scenario, err)
	}
	return nil
}

// detected is what the generator is told of the proxy's detection; nil: no scenario that it may see has a known truth.
func (u *turn) detected(ctx context.Context, baseline []measured) (*advisor.Detection, error) {
	var seen []measured
	var series [][]traffic.Snapshot
	for _, b := range baseline {
		if !b.shape.HoldOut && len(b.report.Windows) > 0 {
			seen = append(seen, b)
			series = append(series, detection.Measured(b.shape, b.Result.Started, b.snapshots))
		}
	}
	if len(seen) == 0 {
		return nil, nil
	}
	labels, err := u.classify(ctx, series)
	if err != nil {
		return nil, err
	}
	var reports []detection.Report
	var runs []detection.Observed
	for i, b := range seen {
		r := b.report.Labelled(labels.Author, labels.States[i])
		if err := u.Notebook.SaveDetection(ctx, b.ID, r); err != nil {
			return nil, fmt.Errorf("storing the labels of %s: %w", b.Scenario, err)
		}
		reports = append(reports, r)
		runs = append(runs, detection.Observed{Shape: b.shape, Started: b.Result.Started, Snapshots: b.snapshots})
	}
	return &advisor.Detection{
		Named: detection.Named(reports...), Classified: detection.Classified(reports...), Classifier: labels.Author,
		Across: detection.Across(reports...), Suggestions: detection.Suggest(u.champion.Rules.Detection, runs),
	}, nil
}

// classify has the generator label the windows if it can, and labels them without a model otherwise. Labels are no
// part of the rules: a model that fails at them does not end the cycle.
func (u *turn) classify(ctx context.Context, series [][]traffic.Snapshot) (advisor.Labels, error) {
	g, _ := u.generator() // what is wrong with it, asking for rules will say
	if c, can := g.(Classifier); can {
		l, err := c.Classify(ctx, u.c.ID, series)
		if saveErr := u.saveCalls(ctx, nil, l.Calls); saveErr != nil {
			return l, fmt.Errorf("storing the classifier's calls: %w", saveErr)
		}
		if err == nil || ctx.Err() != nil {
			return l, context.Cause(ctx)
		}
		u.Log.Warn("the windows are labelled without a model", "cycle", u.c.ID, "error", err)
	}
	return advisor.LocalLabels(series), nil
}
