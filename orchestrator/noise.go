package orchestrator

import (
	"fmt"
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// KnownNoise is how noisy a machine is known to be, under a profile and driver.
type KnownNoise struct {
	Profile loadtest.Profile `json:"profile"`
	Driver  loadtest.Driver  `json:"driver"`
	Known   []verdict.Noise  `json:"known"`
	Updated time.Time        `json:"updated_at,omitzero"` // when the newest pair was measured
	Setup   Setup            `json:"setup"`               // that the newest was measured in
}

// NoiseUnder is what is known under one profile and driver, which may be nothing.
func NoiseUnder(all []KnownNoise, p loadtest.Profile, d loadtest.Driver) KnownNoise {
	i := slices.IndexFunc(all, func(k KnownNoise) bool { return k.Profile == p && k.Driver == d })
	if i < 0 {
		return KnownNoise{Profile: p, Driver: d}
	}
	return all[i]
}

// of is what is known of one scenario.
func (k KnownNoise) of(scenario string) (noise []verdict.Noise) {
	for _, n := range k.Known {
		if n.Scenario == scenario {
			noise = append(noise, n)
		}
	}
	return noise
}

// Setup is what a run's figures depend on beside rules, scenario, profile and driver. An empty part is not known.
type Setup struct {
	Machine  string `json:"machine,omitempty"`  // that makes the load: linux/amd64, 2 processors
	Driver   string `json:"driver,omitempty"`   // its program and version
	Proxy    string `json:"proxy,omitempty"`    // its build
	Backends string `json:"backends,omitempty"` // of the proxy, each with its weight
}

// changed says what is other in now, one phrase each. What is not known in either is not said to have changed.
func (s Setup) changed(now Setup) (all []string) {
	for _, part := range []struct{ name, then, now string }{
		{"the machine", s.Machine, now.Machine},
		{"the load driver", s.Driver, now.Driver},
		{"the proxy's build", s.Proxy, now.Proxy},
	} {
		if part.then != "" && part.now != "" && part.then != part.now {
			all = append(all, fmt.Sprintf("%s changed (%s then, %s now)", part.name, part.then, part.now))
		}
	}
	if s.Backends != "" && now.Backends != "" && s.Backends != now.Backends {
		all = append(all, "the backends or their weights changed")
	}
	return all
}

// NoiseHolds is how long what is known of a machine's noise is relied on without a newer pair.
const NoiseHolds = 7 * 24 * time.Hour

// Stale says why what is known is to be measured anew, one phrase each; empty: it is fresh. The judge uses it all the
// same: noise that a cycle's own scatter contradicts, it leaves out by itself.
func (k KnownNoise) Stale(now time.Time, setup Setup) (why []string) {
	if len(k.Known) == 0 {
		return nil
	}
	if age := now.Sub(k.Updated); age > NoiseHolds {
		why = append(why, fmt.Sprintf("its newest pair is %s old, more than %s", Age(age), Age(NoiseHolds)))
	}
	return append(why, k.Setup.changed(setup)...)
}

// Basis says what the noise is known from, as of an instant: "from 4 to 12 pairs in 4 scenarios,
// the newest 2 days old". Empty when nothing is known.
func (k KnownNoise) Basis(at time.Time) string {
	if len(k.Known) == 0 {
		return ""
	}
	var scenarios []string
	least, most := k.Known[0].Pairs, k.Known[0].Pairs
	for _, n := range k.Known {
		least, most = min(least, n.Pairs), max(most, n.Pairs)
		if !slices.Contains(scenarios, n.Scenario) {
			scenarios = append(scenarios, n.Scenario)
		}
	}
	from := fmt.Sprint(most)
	if least != most {
		from = fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprintf("from %s pairs in %s, the newest %s old", from, counted(len(scenarios), "scenario"), Age(at.Sub(k.Updated)))
}

// Age writes an age as people say it.
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return "a minute"
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
