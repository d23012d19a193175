package advisor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/prompts"
)

// proposing is an answer whose SPIKE has another algorithm.
func proposing(algorithm string) string {
	return spoiled(func(a map[string]any) { rule(a, 3)["algorithm"] = algorithm })
}

func (m *model) proposals(t *testing.T, n int) (Proposals, error) {
	t.Helper()
	o, err := newOpenAI(OpenAI{Key: key, BaseURL: m.URL + "/v1"})
	require.NoError(t, err)
	defer o.closeIdle()
	return o.Proposals(context.Background(), evidence(), n)
}

func (o *openAI) closeIdle() {
	o.Transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

func TestSeveralProposalsDifferAndEachKnowsOfThoseBefore(t *testing.T) {
	m := serve(t, says(proposing("RANDOM"), "stop"), says(proposing("random"), "stop"), says(proposing("EXPECTED_COMPLETION"), "stop"))
	p, err := m.proposals(t, 3)
	require.NoError(t, err)
	require.Len(t, p.Advice, 2)
	require.Equal(t, "1 of 3 answers equalled an earlier one", p.Short)
	require.Len(t, p.Rest, 1)
	require.Len(t, p.Calls(), 3)
	require.Len(t, m.requests[0]["messages"], 2)
	another := m.requests[1]["messages"].([]any)[2].(map[string]any)["content"]
	require.Equal(t, prompts.Another+`[["SPIKE: ROUND_ROBIN → RANDOM","detection.spike_rate: 1 → 0.8"]]`, another)
}

func TestWhatGoesWrongLaterLeavesTheProposalsThatThereAre(t *testing.T) {
	m := serve(t, says(proposing("RANDOM"), "stop"), refuse(401, "no more", ""))
	p, err := m.proposals(t, 3)
	require.NoError(t, err)
	require.Len(t, p.Advice, 1)
	require.Contains(t, p.Short, "1 of 3 answers came: asking gpt-4o")
	require.Equal(t, []CallOutcome{CallHTTPError}, outcomes(Advice{Calls: p.Rest}))

	p, err = serve(t, refuse(401, "never", "")).proposals(t, 3)
	require.ErrorContains(t, err, "refused the key")
	require.Empty(t, p.Advice)
	require.Len(t, p.Calls(), 1)
}

func TestTheLocalGeneratorHasOneAnswer(t *testing.T) {
	p, err := local{}.Proposals(context.Background(), evidence(), 3)
	require.NoError(t, err)
	require.Len(t, p.Advice, 1)
	require.NotEmpty(t, p.Short)
	_, err = local{}.Proposals(context.Background(), Evidence{}, 3)
	require.ErrorContains(t, err, "no measurements")
}
