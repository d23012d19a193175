package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

var (
	today = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)
	here  = orchestrator.Setup{Machine: "linux/amd64, 2 processors", Driver: "vegeta v12.12.0", Proxy: "v1", Backends: "a=h:1×1"}
)

// noisyBy is a machine on which the p95 of every scenario scatters by sd under the quick profile.
func noisyBy(sd float64, age time.Duration) orchestrator.KnownNoise {
	k := orchestrator.KnownNoise{Profile: loadtest.Quick, Driver: loadtest.Builtin, Updated: today.Add(-age), Setup: here}
	for _, s := range []string{"steady", "burst"} {
		k.Known = append(k.Known, verdict.Noise{Scenario: s, Metric: verdict.P95, SD: sd, Pairs: 12},
			verdict.Noise{Scenario: s, Metric: verdict.RPS, SD: 0.003, Pairs: 12}, verdict.Noise{Scenario: s, Metric: verdict.ErrorRate, SD: 0.001, Pairs: 9})
	}
	return k
}

// forecast is over two scenarios on a machine.
func forecast(k orchestrator.KnownNoise, setup orchestrator.Setup) *orchestrator.Forecast {
	steady, _ := loadtest.Load("steady")
	burst, _ := loadtest.Load("burst")
	return &orchestrator.Forecast{
		Site: orchestrator.Site{URL: "http://target", Scenarios: []loadtest.Scenario{{Shape: steady}, {Shape: burst}}},
		Driver: func(loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
			return nil, loadtest.Builtin, nil
		},
		Setup: func(context.Context, loadtest.Driver) orchestrator.Setup { return setup },
		Noise: func(context.Context) ([]orchestrator.KnownNoise, error) { return []orchestrator.KnownNoise{k}, nil },
	}
}

// outlook is that of a quick cycle.
func outlook(t *testing.T, k orchestrator.KnownNoise, setup orchestrator.Setup, change ...func(*orchestrator.Request)) orchestrator.Outlook {
	t.Helper()
	r := orchestrator.Request{Kind: orchestrator.Tune, Profile: loadtest.Quick, Driver: loadtest.Auto, Limits: verdict.DefaultLimits()}
	for _, f := range change {
		f(&r)
	}
	list, err := forecast(k, setup).Outlooks(t.Context(), today, r)
	require.NoError(t, err)
	return list[0]
}

func TestACalmMachineCanDecide(t *testing.T) {
	o := outlook(t, noisyBy(0.03, 50*time.Hour), here)
	require.True(t, o.Decides())
	require.True(t, o.Fresh())
	require.Equal(t, loadtest.Builtin, o.Driver, "auto is told as what it is")
	require.LessOrEqual(t, o.NeededTakes, o.Takes)
	require.Regexp(t, `^Quick can decide here: a candidate that is just as good is mostly kept after \d pairs? \(by .*\), of 4 at most \(\d+ minutes\)\. `+
		`The noise is known from 9 to 12 pairs in 2 scenarios, the newest 2 days old\.$`, o.Says)
}

func TestAMachineThatIsTooNoisySaysWhatItWouldTake(t *testing.T) {
	o := outlook(t, noisyBy(0.16, time.Hour), here)
	require.False(t, o.Decides())
	require.Equal(t, 4, o.Pairs)
	require.Greater(t, o.Hardest.Needed, 4)
	plan, err := orchestrator.PlanFor(loadtest.Quick)
	require.NoError(t, err)
	var scenarios []loadtest.Scenario
	for _, name := range []string{"steady", "burst"} {
		s, _ := loadtest.Load(name)
		scenarios = append(scenarios, loadtest.Scenario{Shape: s.Scaled(loadtest.Quick)})
	}
	plan.Screen = nil // its generator is not named
	require.Equal(t, plan.Expected(scenarios, o.Hardest.Needed), o.NeededTakes)
	require.Equal(t, plan.Expected(scenarios, 4), o.Takes)
	require.Regexp(t, `^Quick can't be expected to decide here: p95 in (steady|burst) differs by 17\.4% .* is mostly kept after \d+ pairs, which take \d+ minutes; quick ends at 4, after \d+ minutes\.`, o.Says)

	wider := outlook(t, noisyBy(0.16, time.Hour), here, func(r *orchestrator.Request) { r.Limits.P95Increase = 3 })
	require.True(t, wider.Decides(), wider.Says)
	nothing := outlook(t, noisyBy(9, time.Hour), here)
	require.Contains(t, nothing.Says, "99 pairs or more, which take more than")
}

func TestAMachineWithoutKnownNoiseSaysSo(t *testing.T) {
	for _, change := range []func(*orchestrator.Request){
		func(r *orchestrator.Request) { r.Profile = loadtest.Standard },
		func(r *orchestrator.Request) { r.Driver = loadtest.K6 },
	} {
		o := outlook(t, noisyBy(0.03, time.Hour), here, change)
		require.Nil(t, o.Hardest)
		require.False(t, o.Decides())
		require.False(t, o.Fresh())
		require.Regexp(t, "is not known yet: a verdict needs more pairs.*`retune doctor --noise --profile (quick|standard)` measures it in about \\d+ minutes", o.Says)
	}
	k := noisyBy(0.03, time.Hour)
	k.Known = k.Known[:3] // steady alone
	o := outlook(t, k, here)
	require.Equal(t, []string{"burst"}, o.Unknown)
	require.False(t, o.Fresh())
	require.Contains(t, o.Says, "That of burst is not known yet.")
	only := outlook(t, k, here, func(r *orchestrator.Request) { r.Scenarios = []string{"steady"} })
	require.True(t, only.Fresh(), only.Says)
}

func TestWhatIsKnownGetsStale(t *testing.T) {
	for name, c := range map[string]struct {
		age   time.Duration
		setup func(*orchestrator.Setup)
		says  string
	}{
		"at the last moment":                   {orchestrator.NoiseHolds, func(*orchestrator.Setup) {}, ""},
		"old":                                  {orchestrator.NoiseHolds + 36*time.Hour, func(*orchestrator.Setup) {}, "its newest pair is 8 days old, more than 7 days"},
		"another machine":                      {0, func(s *orchestrator.Setup) { s.Machine = "linux/amd64, 8 processors" }, "the machine changed (linux/amd64, 2 processors then, linux/amd64, 8 processors now)"},
		"another driver":                       {0, func(s *orchestrator.Setup) { s.Driver = "vegeta v13" }, "the load driver changed"},
		"another proxy":                        {0, func(s *orchestrator.Setup) { s.Proxy = "v2" }, "the proxy's build changed (v1 then, v2 now)"},
		"other backends":                       {0, func(s *orchestrator.Setup) { s.Backends = "a=h:1×2" }, "the backends or their weights changed"},
		"a proxy that is down is no other one": {0, func(s *orchestrator.Setup) { s.Proxy, s.Backends = "", "" }, ""},
	} {
		setup := here
		c.setup(&setup)
		o := outlook(t, noisyBy(0.03, c.age), setup)
		require.Equal(t, c.says == "", o.Fresh(), "%s: %s", name, o.Says)
		if c.says != "" {
			require.Contains(t, o.Stale[0], c.says, name)
			require.Contains(t, o.Says, "It is stale: "+c.says, name)
		}
	}
	require.Empty(t, orchestrator.KnownNoise{}.Stale(today, here), "what is not known can't be stale")
}

func TestAForecastOfWhatCantBeRunIsAnError(t *testing.T) {
	f := orchestrator.Forecast{
		Driver: func(loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
			return nil, "", errors.New("no driver")
		},
		Setup: func(context.Context, loadtest.Driver) orchestrator.Setup { return here },
		Noise: func(context.Context) ([]orchestrator.KnownNoise, error) { return nil, nil },
	}
	_, err := f.Outlooks(t.Context(), today, orchestrator.Request{Profile: loadtest.Quick, Driver: loadtest.Auto})
	require.ErrorContains(t, err, "no driver")
	_, err = f.Outlooks(t.Context(), today, orchestrator.Request{Profile: "huge", Driver: loadtest.Builtin})
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
	_, err = f.Outlooks(t.Context(), today, orchestrator.Request{Profile: loadtest.Quick, Driver: loadtest.Builtin})
	require.ErrorIs(t, err, orchestrator.ErrInvalid, "no scenario can be run")
}
