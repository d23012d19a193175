package advisor

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// purse is a Purse in memory. It counts every call with the most that it may take.
type purse struct {
	spent   Spend
	settled []Call
	err     error
}

func (p *purse) Reserve(_ context.Context, cycle int64, next Call, caps Caps) (int64, error) {
	if err := errors.Join(p.err, caps.Allow(p.spent, p.spent, next)); err != nil {
		return 0, err
	}
	p.spent.Calls++
	p.spent.Tokens += int64(next.MostTokens)
	if next.MostUSD != nil {
		p.spent.MostUSD += *next.MostUSD
	}
	return cycle*100 + int64(p.spent.Calls), nil
}

func (p *purse) Settle(_ context.Context, c Call) error {
	p.settled = append(p.settled, c)
	return nil
}

// paid has the server asked for cycle 7, out of a purse.
func (m *model) paid(t *testing.T, p *purse, change func(*OpenAI)) (Advice, error) {
	t.Helper()
	c := OpenAI{Key: key, BaseURL: m.URL + "/v1", Purse: p}
	change(&c)
	o, err := newOpenAI(c)
	require.NoError(t, err)
	o.waitAtMost = 0
	defer o.closeIdle()
	e := evidence()
	e.Cycle = 7
	return o.Advise(context.Background(), e)
}

func TestACapStopsBeforeTheCall(t *testing.T) {
	m := serve(t, says("no JSON", "stop"))
	p := &purse{}
	a, err := m.paid(t, p, func(c *OpenAI) { c.Caps.CycleUSD = 0.11 })
	require.ErrorIs(t, err, ErrCap)
	require.ErrorContains(t, err, "$0.11 per cycle, $0.0000 spent, which counts as $0.10")
	require.ErrorContains(t, err, "raise it with --max-usd-per-cycle (RETUNE_MAX_USD_PER_CYCLE), 0 for none")
	require.ErrorContains(t, err, "tokens of gpt-4o at the prices of "+PricesAsOf)
	require.Len(t, m.requests, 2, "the third was never sent")
	require.Equal(t, []int64{701, 702}, []int64{a.Calls[0].ID, a.Calls[1].ID})
	require.Len(t, p.settled, 2)
	// the estimate is from above, and the server's own figures take its place
	c := p.settled[0]
	require.Greater(t, c.MostTokens, 1000+4096)
	require.Greater(t, *c.MostUSD, *c.CostUSD)
	require.InDelta(t, 0.0045, *c.CostUSD, 1e-9)

	_, err = serve(t, says(good(), "stop")).paid(t, &purse{err: errors.New("Postgres is gone")}, asIs)
	require.ErrorContains(t, err, "Postgres is gone", "whom nobody pays for is not asked")
}

func TestWithoutAPriceTheTokenCapCounts(t *testing.T) {
	llama := func(c *OpenAI) { c.Model, c.Caps = "llama3", Caps{CycleUSD: 0.000001, CycleTokens: 11_000} }
	m := serve(t, says("no JSON", "stop"))
	a, err := m.paid(t, &purse{}, llama)
	require.ErrorIs(t, err, ErrCap)
	require.ErrorContains(t, err, "11000 tokens per cycle")
	require.Len(t, m.requests, 1)
	require.Nil(t, a.Calls[0].CostUSD)
	require.Empty(t, a.Calls[0].Prices)
}

func TestWhatTheServerRefusesTakesNothing(t *testing.T) {
	p := &purse{}
	_, err := serve(t, refuse(401, "no", "")).paid(t, p, asIs)
	require.Error(t, err)
	require.Equal(t, []any{0, 0.0}, []any{p.settled[0].MostTokens, *p.settled[0].CostUSD})

	p = &purse{}
	_, err = serve(t).paid(t, p, func(c *OpenAI) { c.BaseURL, c.Model = "http://127.0.0.1:1/v1", "llama3" })
	require.Error(t, err)
	require.Zero(t, p.settled[0].MostTokens)
	require.Nil(t, p.settled[0].CostUSD, "an unknown model's cost is unknown, never 0")

	p = &purse{} // it may have worked on that one
	_, err = serve(t, html(http.StatusGatewayTimeout)).paid(t, p, asIs)
	require.Error(t, err)
	require.Positive(t, p.settled[0].MostTokens)
	require.Nil(t, p.settled[0].CostUSD)
}

func TestASumNeverHidesWhatIsUnknown(t *testing.T) {
	for want, s := range map[string]Spend{
		"$0.0000": {},
		"$0.0118": {Calls: 2, USD: 0.0118},
		"at least $0.0118, 1 call of unknown price": {Calls: 3, USD: 0.0118, Unknown: 1},
		"2 calls of unknown price":                  {Calls: 2, Unknown: 2},
	} {
		require.Equal(t, want, s.String())
	}
	require.Equal(t, "$0.0118 (cap $10.00), 2302 tokens (cap 2000000), 2 calls", Spend{Calls: 2, USD: 0.0118, Tokens: 2302}.Of(10, 2_000_000))
	require.Equal(t, "$0.0118, 2302 tokens, 1 call", Spend{Calls: 1, USD: 0.0118, Tokens: 2302}.Of(0, 0))
}

func TestTheCapItselfMayBeReached(t *testing.T) {
	next := Call{Model: "gpt-4o", MostTokens: 10, MostUSD: ptr(0.5)}
	require.NoError(t, Caps{CycleUSD: 1, DayUSD: 1, CycleTokens: 20, DayTokens: 20}.Allow(Spend{MostUSD: 0.5, Tokens: 10}, Spend{MostUSD: 0.5, Tokens: 10}, next))
	require.NoError(t, Caps{}.Allow(Spend{MostUSD: 1e9, Tokens: 1e12}, Spend{}, next), "0 is no cap")
	require.ErrorContains(t, Caps{DayUSD: 1}.Allow(Spend{}, Spend{USD: 0.6, MostUSD: 0.6}, next), "--max-usd-per-day")
	require.ErrorContains(t, Caps{DayTokens: 19}.Allow(Spend{}, Spend{Tokens: 10}, next), "--max-tokens-per-day")
}
