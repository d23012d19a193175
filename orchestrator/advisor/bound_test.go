package advisor

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// anyEvidence is evidence of any content and any amount. It is made by type, so that whatever Evidence comes to hold is
// part of it.
func anyEvidence(t *rapid.T) Evidence {
	e := rapid.MakeCustom[Evidence](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[func(context.Context, rules.RuleSet) []string](): rapid.Just[any]((func(context.Context, rules.RuleSet) []string)(nil)),
	}}).Draw(t, "evidence")
	for range rapid.IntRange(0, 4).Draw(t, "doublings") {
		e.Scenarios = append(e.Scenarios, e.Scenarios...)
		e.Algorithms = append(e.Algorithms, e.Algorithms...)
		e.Series = append(e.Series, e.Series...)
		e.Switches = append(e.Switches, e.Switches...)
		e.Tried = append(e.Tried, e.Tried...)
	}
	if rapid.Bool().Draw(t, "long") {
		long := strings.Repeat(rapid.String().Draw(t, "text")+"→", 300)
		e.Profile = long
		for i := range e.Tried {
			e.Tried[i].Why, e.Tried[i].Outcome, e.Tried[i].Changes = long, long, []string{long, long, long}
		}
		for i := range e.Scenarios {
			e.Scenarios[i].Scenario += long
		}
	}
	if rapid.Bool().Draw(t, "real champion") {
		e.Champion = rules.Default()
	}
	return e
}

// Whatever there is to tell, it is told within the bound, and what a proposal can't be made without is always told: the
// champion's rules and thresholds, and what was measured under them.
func TestTheEssentialsAreToldWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvidence(t)
		text := Compact(e)
		if n := Tokens(text); n > MaxTokens {
			t.Fatalf("%d tokens", n)
		}
		var told struct {
			Champion struct {
				Thresholds map[string]string
				Rules      map[traffic.State][]string
			}
			Scenarios []string
			Measured  map[string][]*float64 `json:"measured_under_champion"`
		}
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			t.Fatal(err)
		}
		if len(told.Champion.Rules) != len(traffic.States()) || len(told.Champion.Thresholds) != len(thresholds) {
			t.Fatalf("the champion is not told whole: %s", text)
		}
		if len(e.Scenarios) > 0 && (len(told.Scenarios) == 0 || len(told.Measured["p95_ms"]) == 0) {
			t.Fatalf("nothing is told of what was measured: %s", text)
		}
	})
}

// The worst that was found by hand: more of everything than will ever be told.
func TestTheEssentialsOfVastEvidence(t *testing.T) {
	text := Compact(vast())
	require.LessOrEqual(t, Tokens(text), MaxTokens)
	require.Contains(t, text, `"measured_under_champion"`)
	require.Contains(t, text, `"detection.spike_rate"`)
	require.Contains(t, text, `"scenarios":["steady","burst"`)
	require.Contains(t, text, `"p95_ms":[305,655`)
}
