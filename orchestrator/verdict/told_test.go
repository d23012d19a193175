package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGeneratorIsToldNothingOfWhatIsHeldOut(t *testing.T) {
	const secret = "sawtooth"
	pairs := func(scenario string, candidate float64, n int) (all []Pair) {
		for i := range n {
			champion := 100 + float64(i%2)
			all = append(all, Pair{Scenario: scenario, HoldOut: scenario == secret,
				Champion:  Measurement{Requests: 1000, RPS: 80, P95MS: champion},
				Candidate: Measurement{Requests: 1000, RPS: 80, P95MS: champion * candidate * (1 + 0.01*float64(i%3))}})
		}
		return all
	}
	for _, c := range []struct {
		name           string
		shown, heldOut float64
		want           Outcome
		told           string // what it begins with
	}{
		{"both better", 0.7, 0.8, Kept, "kept: every metric of every scenario is within its limit; nearest to it: "},
		{"worse in what is held out alone", 0.7, 2, RolledBack, "rolled back: by a scenario that is held out"},
		{"worse in both", 1.8, 2.5, RolledBack, "rolled back: p95 in burst"},
		{"worse in what is shown alone", 2, 0.8, RolledBack, "rolled back: p95 in burst"},
		{"undecided in what is held out alone", 0.7, 1.15, Inconclusive, "inconclusive: by a scenario that is held out"},
		{"undecided in what is shown alone", 1.15, 0.7, Inconclusive, "inconclusive: p95 in burst"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Judge(append(pairs("burst", c.shown, 3), pairs(secret, c.heldOut, 3)...), DefaultLimits(), nil, []int{3})
			require.NoError(t, err)
			require.Equal(t, c.want, v.Outcome, v.Reason)
			for _, f := range v.Findings {
				require.Equal(t, f.Scenario == secret, f.HoldOut)
			}
			require.NotContains(t, v.Told(), secret)
			require.Contains(t, v.Told(), c.told)
		})
	}
}

func TestWithoutAnyHoldOutAGeneratorIsToldTheReason(t *testing.T) {
	require.Equal(t, "rolled back while settling", Verdict{Outcome: RolledBack, Reason: "rolled back while settling"}.Told())
	require.Equal(t, "kept: x", Verdict{Outcome: Kept, Reason: "kept: x", Findings: []Finding{{Scenario: "a"}}}.Told())
}
