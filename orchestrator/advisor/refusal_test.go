package advisor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// refusing asks for one proposal, and refuses RANDOM for SPIKE.
func (m *model) refusing(t *testing.T) (Proposals, error) {
	t.Helper()
	o, err := newOpenAI(OpenAI{Key: key, BaseURL: m.URL + "/v1"})
	require.NoError(t, err)
	defer o.closeIdle()
	e := evidence()
	e.Refuse = func(_ context.Context, rs rules.RuleSet) []string {
		if rs.Rules[traffic.Spike].Algorithm == balance.Random {
			return []string{"rules: an earlier version that does the same was rolled back"}
		}
		return nil
	}
	return o.Proposals(context.Background(), e, 1)
}

func TestAnAnswerThatWouldBeRefusedIsHandedBack(t *testing.T) {
	m := serve(t, says(proposing("RANDOM"), "stop"), says(proposing("EXPECTED_COMPLETION"), "stop"))
	p, err := m.refusing(t)
	require.NoError(t, err)
	require.Equal(t, balance.ExpectedCompletion, p.Advice[0].Rules.Rules[traffic.Spike].Algorithm)
	require.Equal(t, []CallOutcome{CallInvalidRules, CallOK}, outcomes(p.Advice[0]))
	turns := m.requests[1]["messages"].([]any)
	require.Contains(t, turns[len(turns)-1].(map[string]any)["content"], "- rules: an earlier version that does the same was rolled back")
}

// The asker refuses it again, with the verdict; a cycle does not fail for it.
func TestAnAnswerThatIsRefusedToTheLastIsAdvice(t *testing.T) {
	m := serve(t, says(proposing("RANDOM"), "stop"), says(proposing("RANDOM"), "stop"), says(proposing("RANDOM"), "stop"))
	p, err := m.refusing(t)
	require.NoError(t, err)
	require.Equal(t, balance.Random, p.Advice[0].Rules.Rules[traffic.Spike].Algorithm)
	require.Equal(t, []CallOutcome{CallInvalidRules, CallInvalidRules, CallInvalidRules}, outcomes(p.Advice[0]))
	require.Len(t, m.requests, 1+maxRepairs)
}
