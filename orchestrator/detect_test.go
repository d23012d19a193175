package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// labeller is an Advisor that labels windows too, and remembers what it was shown.
type labeller struct {
	proposes
	shown [][]traffic.Snapshot
	fails error
}

func (l *labeller) Classify(_ context.Context, _ int64, series [][]traffic.Snapshot) (advisor.Labels, error) {
	l.shown = append(l.shown, series...)
	labels := advisor.Labels{Author: "gpt-test", Calls: []advisor.Call{{Model: "gpt-test"}}}
	for _, s := range series {
		labels.States = append(labels.States, make([]traffic.State, len(s)))
		for i := range s {
			labels.States[len(labels.States)-1][i] = traffic.Spike
		}
	}
	return labels, l.fails
}

// seeing has the proxies record windows of ten seconds, each named HIGH_STABLE, during every run of 40 s and more.
func seeing(b *bench) {
	b.load.during = func(int, loadtest.Scenario) {
		b.proxies.mu.Lock()
		defer b.proxies.mu.Unlock()
		b.proxies.seen = nil
		for i := range 6 {
			b.proxies.seen = append(b.proxies.seen, traffic.Snapshot{
				At: b.load.started().Add(time.Duration(10*i+10) * time.Second), Window: 10 * time.Second, State: traffic.HighStable, Requests: 800, RPS: 80, RPSChangeRate: new(float64),
			})
		}
	}
}

func told(t *testing.T, c orchestrator.Cycle) *advisor.Detection {
	t.Helper()
	var e advisor.Evidence
	require.NoError(t, json.Unmarshal(c.Evidence, &e))
	return e.Detection
}

func TestTheGeneratorIsToldHowTheTrafficWasNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := &labeller{proposes: proposes{algorithm: balance.ExpectedCompletion}}
		b := newBench(l)
		seeing(b)
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		d := told(t, c)
		// steady is HIGH_STABLE for 40 s; burst LOW_TRAFFIC for 10 s, SPIKE for 30 s, HIGH_STABLE for 20 s of the windows
		require.Equal(t, detection.Matrix{
			traffic.HighStable: {traffic.HighStable: 6}, traffic.LowTraffic: {traffic.HighStable: 1}, traffic.Spike: {traffic.HighStable: 3},
		}, d.Named)
		require.Equal(t, "gpt-test", d.Classifier)
		require.Equal(t, 3, d.Classified.Agreed())
		require.Len(t, l.shown, 2)

		baseline := b.ledger.reports[1]
		require.Equal(t, []any{"steady", "gpt-test", 4}, []any{baseline.Scenario, baseline.Classifier, len(baseline.Windows)})
		stored := 0
		for id := range b.ledger.reports {
			require.NotContains(t, []orchestrator.Arm{orchestrator.ArmSettle, orchestrator.ArmScreen}, b.ledger.runs[id-1].Arm)
			stored++
		}
		require.Equal(t, len(b.ledger.runs)-1, stored, "every run but the settling one")
	})
}

func TestAHeldOutScenarioIsCountedAndNotShown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := &labeller{proposes: proposes{algorithm: balance.ExpectedCompletion}}
		b := newBench(l)
		b.tuner.Site.Scenarios[1].Shape.HoldOut = true
		seeing(b)
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, detection.Matrix{traffic.HighStable: {traffic.HighStable: 4}}, told(t, c).Named)
		require.Len(t, l.shown, 1, "the classifier is the generator's: it does not see it either")
		held := b.ledger.reports[2]
		require.True(t, held.HoldOut)
		require.Len(t, held.Windows, 6)
		require.Empty(t, held.Classifier)
	})
}

func TestAModelThatCantLabelDoesNotEndTheCycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(&labeller{proposes: proposes{algorithm: balance.ExpectedCompletion}, fails: errors.New("no quota")})
		b.load.p95 = map[int]float64{1: 200, 2: 100}
		seeing(b)
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
		require.Equal(t, "local", told(t, c).Classifier)
	})
}

func TestWithoutWindowsNothingIsSaidOfDetection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(proposes{algorithm: balance.ExpectedCompletion})
		c, err := run(t, b, t.Context())
		require.NoError(t, err)
		require.Nil(t, told(t, c))
		require.Empty(t, b.ledger.reports)
	})
}
