package advisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Caps bound what calls of a model may cost, within one cycle and within one day (UTC). 0 means no bound. Calls of a
// model without a known price count by tokens alone.
type Caps struct {
	CycleUSD    float64 `json:"cycle_usd"`
	DayUSD      float64 `json:"day_usd"`
	CycleTokens int64   `json:"cycle_tokens"` // of prompts and answers together
	DayTokens   int64   `json:"day_tokens"`
}

// DefaultCaps are for those who set none. A cycle with gpt-4o costs a few cents, so they stop what has gone wrong.
func DefaultCaps() Caps {
	return Caps{CycleUSD: 1, DayUSD: 10, CycleTokens: 200_000, DayTokens: 2_000_000}
}

// ErrCap is wrapped by what stops a call that might go over a cap.
var ErrCap = errors.New("the model was not asked, because of a cap")

// Purse is asked before each call of a model, and told afterwards what it came to. It keeps what was spent across
// restarts and for all who spend at once.
type Purse interface {
	// Reserve sets aside the most that a call may use, or refuses it with ErrCap. The id is the call's from then on.
	Reserve(ctx context.Context, cycle int64, next Call, caps Caps) (id int64, err error)
	// Settle stores what the call was; one that is never settled counts with what was set aside.
	Settle(ctx context.Context, c Call) error
}

// Spend is what calls came to.
type Spend struct {
	Calls   int     `json:"calls"`
	USD     float64 `json:"usd"`     // of the calls whose cost is known
	Unknown int     `json:"unknown"` // calls whose cost is not known: no price, no usage told, or no answer
	// MostUSD is USD and the most that the others may have cost, as far as their model has a price. It is what counts
	// against caps.
	MostUSD float64 `json:"most_usd"`
	Tokens  int64   `json:"tokens"` // as told by the server; where it told nothing, the most that there may have been
}

// String says what was spent, an unknown cost never as nothing: "$0.0118", "at least $0.0118, 2 calls of unknown price".
func (s Spend) String() string {
	switch {
	case s.Unknown == 0:
		return fmt.Sprintf("$%.4f", s.USD)
	case s.USD == 0:
		return calls(s.Unknown) + " of unknown price"
	}
	return fmt.Sprintf("at least $%.4f, %s of unknown price", s.USD, calls(s.Unknown))
}

// Of sets what was spent against caps; 0: none.
func (s Spend) Of(usd float64, tokens int64) string {
	text := s.String()
	if usd > 0 {
		text += fmt.Sprintf(" (cap $%.2f)", usd)
	}
	text += fmt.Sprintf(", %d tokens", s.Tokens)
	if tokens > 0 {
		text += fmt.Sprintf(" (cap %d)", tokens)
	}
	return text + ", " + calls(s.Calls)
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// Allow refuses the next call, with ErrCap, when it might go over a cap: it says what was spent, what the call may take
// at most, and which setting raises the cap.
func (c Caps) Allow(cycle, day Spend, next Call) error {
	return cmp.Or(
		overUSD(c.CycleUSD, "cycle", cycle, next), overUSD(c.DayUSD, "day", day, next),
		overTokens(c.CycleTokens, "cycle", cycle, next), overTokens(c.DayTokens, "day", day, next))
}

func overUSD(most float64, per string, spent Spend, next Call) error {
	if most <= 0 || next.MostUSD == nil || spent.MostUSD+*next.MostUSD <= most {
		return nil
	}
	said := spent.String() + " spent"
	if spent.MostUSD > spent.USD {
		said += fmt.Sprintf(", which counts as $%.4f", spent.MostUSD)
	}
	return over(fmt.Sprintf("$%.2f", most), per, said, fmt.Sprintf("$%.4f (%d tokens of %s at the prices of %s)",
		*next.MostUSD, next.MostTokens, next.Model, PricesAsOf), "usd")
}

func overTokens(most int64, per string, spent Spend, next Call) error {
	if most <= 0 || spent.Tokens+int64(next.MostTokens) <= most {
		return nil
	}
	return over(fmt.Sprintf("%d tokens", most), per, fmt.Sprintf("%d tokens spent", spent.Tokens),
		fmt.Sprintf("%d tokens of %s", next.MostTokens, next.Model), "tokens")
}

func over(most, per, spent, next, unit string) error {
	return fmt.Errorf("%w: %s per %s, %s, and the next call may take up to %s; raise it with --max-%s-per-%s (RETUNE_MAX_%s_PER_%s), 0 for none",
		ErrCap, most, per, spent, next, unit, per, strings.ToUpper(unit), strings.ToUpper(per))
}
