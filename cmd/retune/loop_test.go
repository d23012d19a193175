package main

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/detection"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// everywhere is a rule set with one algorithm for every state.
func everywhere(a balance.Algorithm) rules.RuleSet {
	rs := rules.Default()
	rs.Rules = map[traffic.State]rules.Rule{}
	for _, s := range traffic.States() {
		rs.Rules[s] = rules.Rule{Algorithm: a, Reason: "one algorithm for every state"}
	}
	return rs
}

// champion writes the rule file that becomes v1.
func (w *town) firstRules(rs rules.RuleSet) {
	require.NoError(w.t, os.WriteFile(w.path("decision-rules.yml"), rules.Render(rs), 0o644))
}

// cycleLasts is how long a cycle of the short scenario may take on a slow machine.
const cycleLasts = 2 * time.Minute

func TestABadProposalIsRolledBack(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.LeastConnections))
		w.startBackends()
		w.startProxy("1", "1", "1", "1000") // by weight nearly everything goes to the slowest
		w.startOrchestrator()
		id := w.propose(everywhere(balance.WeightedRoundRobin), false, "short")
		c := w.judged(id)
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		require.Equal(t, 2, c.Candidate)
		t.Log(c.Why)
		w.champion(1)
	})
}

func TestAWorseProposalIsRolledBackByItsPairs(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.ExpectedCompletion))
		w.startAll()
		id := w.propose(everywhere(balance.RoundRobin), false, "short")
		c := w.judged(id)
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		require.NotEmpty(t, c.Verdict.Findings, "by its pairs, not while settling")
		t.Log(c.Why)
		w.champion(1)
	})
}

func TestAGoodProposalIsKept(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.RoundRobin))
		w.startAll()
		id := w.propose(everywhere(balance.ExpectedCompletion), false, "short")
		c := w.judged(id)
		require.Equal(t, orchestrator.Kept, c.Status, c.Why)
		for _, f := range c.Verdict.Findings {
			require.Equal(t, verdict.Kept, f.Outcome)
			t.Logf("%s %s %.1f → %.1f", f.Scenario, f.Metric, f.Champion, f.Candidate)
		}
		w.champion(2)
		var named detection.Summary // over real windows of a real proxy: how they fall is chance, that none is lost isn't
		w.call(http.MethodGet, cyclePath(id)+"/detection", nil, &named)
		require.Positive(t, named.Champion.Windows+named.Champion.Across)
		require.Positive(t, named.Candidate.Windows+named.Candidate.Across)
		require.Equal(t, "local", named.Classifier)

		w.kill("orchestrator") // a second start has the same history, and the kept rules in force
		w.startOrchestrator()
		require.Equal(t, orchestrator.Kept, w.cycle(id).Status)
		w.champion(2)
	})
}

func TestEqualRulesAreNeverRolledBack(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.LeastConnections))
		w.startAll()
		id := w.propose(everywhere(balance.LeastConnections), true, "short")
		c := w.judged(id)
		require.NotEqual(t, orchestrator.RolledBack, c.Status, c.Why)
		require.Contains(t, []orchestrator.Status{orchestrator.Kept, orchestrator.Inconclusive}, c.Status, c.Why)
	})
}

func TestRulesByHandAreRefusedDuringATrial(t *testing.T) {
	measuring(t, func(w *town) {
		w.firstRules(everywhere(balance.LeastConnections))
		w.startAll()
		id := w.propose(everywhere(balance.RoundRobin), false, "short")
		w.goesTo(id, orchestrator.Settling)
		err := w.api.call(t.Context(), http.MethodPost, "/versions", map[string]string{"yaml": string(rules.Render(everywhere(balance.Random))), "reason": "by hand"}, nil)
		var p *apiProblem
		require.ErrorAs(t, err, &p)
		require.Equal(t, http.StatusConflict, p.Status)
		require.Contains(t, p.Detail, "trial")
		w.call(http.MethodPost, cyclePath(id)+"/cancel", nil, nil)
		require.Equal(t, orchestrator.Cancelled, w.ended(id, 30*time.Second).Status)
		w.champion(1)

		w.call(http.MethodPost, "/versions", map[string]string{"yaml": string(rules.Render(everywhere(balance.Random))), "reason": "by hand"}, nil)
		w.champion(3) // after the trial it is taken
	})
}
