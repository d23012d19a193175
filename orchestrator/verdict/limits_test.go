package verdict

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLimitsAreReadAsPeopleWriteThem(t *testing.T) {
	for _, c := range []struct {
		p95, rps, errors string
		want             Limits
	}{
		{"", "", "", DefaultLimits()},
		{"10%", "", "", Limits{0.10, 0.15, 0.02}},
		{" 0.10 ", "12.5 %", "1", Limits{0.10, 0.125, 0.01}},
		{"150%", "99%", "0.5pp", Limits{1.5, 0.99, 0.005}},
		{"", "", "3 points", Limits{0.15, 0.15, 0.03}},
		{"", "", "1%", Limits{0.15, 0.15, 0.01}},
		{"", "", "0.05pp", Limits{0.15, 0.15, 0.0005}},
	} {
		got, err := DefaultLimits().With(c.p95, c.rps, c.errors)
		require.NoError(t, err, c)
		require.InDelta(t, c.want.P95Increase, got.P95Increase, 1e-12, c)
		require.InDelta(t, c.want.RPSDecrease, got.RPSDecrease, 1e-12, c)
		require.InDelta(t, c.want.ErrorIncrease, got.ErrorIncrease, 1e-12, c)
	}
}

func TestALimitThatIsNoneIsRefusedWithWhatWouldBeRight(t *testing.T) {
	for text, says := range map[string]string{
		"10": "write 10%", "1": "write 1%", "ten": "such as 10% or 0.10", "-5%": "above 0", "+5%": "such as 10%", "0": "must be above 0", "0%": "must be above 0",
		"NaN": "such as", "Inf": "such as", "1e3%": "such as", "0x1p2%": "such as", "1_0%": "such as", "10%%": "such as", "%": "such as", "1,5%": "such as",
		"10% 5%": "such as", "１０%": "such as", "10pp": "such as", strings.Repeat("9", 400) + "%": "such as",
	} {
		_, err := DefaultLimits().With(text, "", "")
		require.ErrorContains(t, err, says, "p95 %q", text)
	}
	for text, says := range map[string]string{
		"100%": "below 1", "250%": "below 1", "1": "write 1%",
	} {
		_, err := DefaultLimits().With("", text, "")
		require.ErrorContains(t, err, says, "rps %q", text)
	}
	for text, says := range map[string]string{
		"0.02": "write 0.02pp or 2pp", "0": "must be above 0", "100": "below 1", "2 percent": "such as 1 or 0.5pp", "-1": "above 0", "": "",
	} {
		_, err := DefaultLimits().With("", "", text)
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says, "errors %q", text)
	}
	_, err := DefaultLimits().With("x", "y", "z")
	for _, name := range []string{`p95 "x"`, `rps "y"`, `errors "z"`} {
		require.ErrorContains(t, err, name, "every fault in one go")
	}
}

func TestLimitsComeBackFromTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string, most float64) float64 {
			return math.Round(rapid.Float64Range(1e-6, most).Draw(t, name)*1e6) / 1e6
		}
		want := Limits{limit("p95", 50), limit("rps", 0.99), limit("errors", 0.99)}
		got, err := DefaultLimits().With(want.Text())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []float64{got.P95Increase - want.P95Increase, got.RPSDecrease - want.RPSDecrease, got.ErrorIncrease - want.ErrorIncrease} {
			if math.Abs(d) > 1e-8 {
				t.Fatalf("%v became %v", want, got)
			}
		}
	})
	require.Equal(t, "p95 +15%, RPS −15%, errors +2 points", DefaultLimits().String())
}
