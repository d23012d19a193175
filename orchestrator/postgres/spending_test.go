package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/advisor"
	"retune/orchestrator/postgres"
)

func usd(x float64) *float64 { return &x }

// next is a call that is about to be made.
func next(tokens int, most *float64) advisor.Call {
	return advisor.Call{Provider: "127.0.0.1", Model: "gpt-4o", Request: `{"model":"gpt-4o"}`, MostTokens: tokens, MostUSD: most, Prices: advisor.PricesAsOf}
}

func TestACallIsSetAsideBeforeItIsMade(t *testing.T) {
	s, _, dsn := seeded(t)
	c := running(t, s)
	caps := advisor.Caps{CycleUSD: 1, DayUSD: 10, CycleTokens: 10_000}
	call := next(6000, usd(0.05))
	var err error
	call.ID, err = s.Reserve(t.Context(), c.ID, call, caps)
	require.NoError(t, err)

	// what is set aside counts, for another instance and after a restart too
	other := open(t, dsn)
	sum, err := other.Spent(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, advisor.Spend{Calls: 1, Unknown: 1, MostUSD: 0.05, Tokens: 6000}, sum)
	_, err = other.Reserve(t.Context(), c.ID, next(5000, usd(0.05)), caps)
	require.ErrorIs(t, err, advisor.ErrCap)
	require.ErrorContains(t, err, "10000 tokens per cycle, 6000 tokens spent, and the next call may take up to 5000 tokens of gpt-4o; raise it with --max-tokens-per-cycle (RETUNE_MAX_TOKENS_PER_CYCLE)")

	call.Outcome, call.PromptTokens, call.CompletionTokens, call.CostUSD = advisor.CallOK, 1000, 200, usd(0.0045)
	call.Response = "an answer\x00"
	require.NoError(t, s.Settle(t.Context(), call))
	sum, err = s.Spent(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, advisor.Spend{Calls: 1, USD: 0.0045, MostUSD: 0.0045, Tokens: 1200}, sum)

	// the last word on it comes with the cycle's other calls, and stands there once
	call.Outcome, call.Error = advisor.CallInvalidRules, "rules: 4 of them"
	replayed := advisor.Call{Provider: "cassette", Model: "gpt-4o", Outcome: advisor.CallOK, Replayed: "exchange 1 of 1", PromptTokens: 9999, At: c.Created}
	require.NoError(t, s.SaveCalls(t.Context(), c.ID, 1, []advisor.Call{call, replayed}))
	got, err := s.Calls(t.Context(), c.ID)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []any{advisor.CallInvalidRules, "rules: 4 of them", "an answer\uFFFD", advisor.PricesAsOf, 6000},
		[]any{got[0].Outcome, got[0].Error, got[0].Response, got[0].Prices, got[0].MostTokens})
	require.Equal(t, "exchange 1 of 1", got[1].Replayed)
	sum, err = s.Spent(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, 1, sum.Calls, "a replay costs nothing and does not count")
}

func TestWhatIsNotKnownIsNeverNothing(t *testing.T) {
	s, db, _ := seeded(t)
	c := running(t, s)
	calls := []advisor.Call{
		{Model: "llama3", Outcome: advisor.CallOK, PromptTokens: 100, CompletionTokens: 50, MostTokens: 5000},
		{Model: "llama3", Outcome: advisor.CallOK, MostTokens: 5000},                                             // told no usage
		{Model: "gpt-4o", Outcome: advisor.CallTimeout, MostTokens: 6000, MostUSD: usd(0.05)},                    // may have been worked on
		{Model: "llama3", Outcome: advisor.CallHTTPError},                                                        // refused
		{Model: "gpt-4o", Outcome: advisor.CallHTTPError, CostUSD: usd(0), MostUSD: usd(0)},                      // refused
		{Model: "gpt-4o", Outcome: advisor.CallOK, PromptTokens: 10, CompletionTokens: 10, CostUSD: usd(0.0001)}, // known
	}
	for i := range calls {
		calls[i].At = c.Created
	}
	require.NoError(t, s.SaveCalls(t.Context(), c.ID, 0, calls))
	sum, err := s.Spent(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, "at least $0.0001, 3 calls of unknown price", sum.String())
	require.InDelta(t, 0.0501, sum.MostUSD, 1e-9)
	require.EqualValues(t, 150+5000+6000+20, sum.Tokens)

	// yesterday's calls are not today's
	_, err = db.Exec(t.Context(), `UPDATE llm_call SET at = at - interval '1 day' WHERE model = 'llama3'`)
	require.NoError(t, err)
	today, err := s.Spent(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, 3, today.Calls)
}

// Two orchestrators that ask at once can't both have the last of a cap.
func TestACapHoldsForAllWhoSpendAtOnce(t *testing.T) {
	s, _, dsn := seeded(t)
	c := running(t, s)
	stores := []*postgres.Store{s, open(t, dsn)}
	var had, refused atomic.Int64
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			_, err := stores[i%2].Reserve(t.Context(), c.ID, next(100, usd(0.10)), advisor.Caps{DayUSD: 0.55})
			switch {
			case err == nil:
				had.Add(1)
			case errors.Is(err, advisor.ErrCap):
				refused.Add(1)
			}
		})
	}
	asking.Wait()
	require.EqualValues(t, 5, had.Load())
	require.EqualValues(t, 11, refused.Load())
}

func TestACassetteTravelsWithItsCycle(t *testing.T) {
	s, _, _ := seeded(t)
	r := request()
	r.Generator, r.Replay = "replay", "no cassette"
	_, err := s.Enqueue(t.Context(), r)
	require.ErrorContains(t, err, "line 1 of the cassette is no exchange")
	r.Generator, r.Replay = "local", `{}`
	_, err = s.Enqueue(t.Context(), r)
	require.ErrorContains(t, err, "a cassette goes with generator replay, not local")

	r.Generator, r.Replay = "replay", `{"request_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","request":{},"error":"no answer"}`
	_, err = s.Enqueue(t.Context(), r)
	require.NoError(t, err)
	c, claimed, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, claimed)
	require.Equal(t, r.Replay, c.Replay)
	list, err := s.Cycles(t.Context(), 10, 0)
	require.NoError(t, err)
	require.Empty(t, list[0].Replay)
}
