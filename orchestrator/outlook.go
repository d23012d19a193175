package orchestrator

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// Outlook is what a cycle can tell on this machine, said before it starts.
type Outlook struct {
	Profile loadtest.Profile `json:"profile"`
	Driver  loadtest.Driver  `json:"driver"` // k6 or builtin, whatever was asked for
	Limits  verdict.Limits   `json:"limits"`
	Pairs   int              `json:"pairs"`    // of every scenario, at the plan's last look
	Takes   time.Duration    `json:"takes_ns"` // about, to the last look
	// Hardest is the metric and scenario that need the most pairs; nil: no noise is known of what would be run.
	Hardest     *verdict.Resolution `json:"hardest,omitempty"`
	NeededTakes time.Duration       `json:"needed_takes_ns,omitempty"` // about, to as many pairs as Hardest needs
	Unknown     []string            `json:"unknown,omitempty"`         // scenarios whose noise is not known
	Calibration time.Duration       `json:"calibration_ns"`            // how long measuring the noise takes, about
	Updated     time.Time           `json:"updated_at,omitzero"`       // when the newest pair was measured
	Stale       []string            `json:"stale,omitempty"`           // why the noise is to be measured anew
	Says        string              `json:"says"`                      // all of it in sentences
}

// Fresh reports whether the noise of all that would be run is known and not stale.
func (o Outlook) Fresh() bool { return o.Hardest != nil && len(o.Unknown) == 0 && len(o.Stale) == 0 }

// Decides reports whether a candidate that is just as good is mostly kept within the plan.
func (o Outlook) Decides() bool { return o.Hardest != nil && o.Hardest.Needed <= o.Pairs }

// Forecast tells what cycles can tell here, from what is known of the noise.
type Forecast struct {
	Site   Site
	Driver func(loadtest.Driver) (LoadRunner, loadtest.Driver, error) // as the Tuner's
	Setup  func(context.Context, loadtest.Driver) Setup               // as the Tuner's
	Noise  func(context.Context) ([]KnownNoise, error)                // all that is known of this machine
}

// Outlooks are those of requests, in their order, as of now. ErrInvalid for a request that can't be run here.
func (f *Forecast) Outlooks(ctx context.Context, now time.Time, requests ...Request) ([]Outlook, error) {
	all, err := f.Noise(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the known noise: %w", err)
	}
	list := make([]Outlook, len(requests))
	setups := map[loadtest.Driver]Setup{}
	for i, r := range requests {
		if r.Driver != loadtest.K6 && r.Driver != loadtest.Builtin { // a driver that was named may be missing at the moment
			if _, r.Driver, err = f.Driver(r.Driver); err != nil {
				return nil, err
			}
		}
		if _, asked := setups[r.Driver]; !asked {
			setups[r.Driver] = f.Setup(ctx, r.Driver)
		}
		if list[i], err = f.outlook(r, NoiseUnder(all, r.Profile, r.Driver), now, setups[r.Driver]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// outlook is that of one request whose driver is chosen.
func (f *Forecast) outlook(r Request, known KnownNoise, now time.Time, setup Setup) (Outlook, error) {
	plan, err := PlanFor(r.Profile)
	if err != nil {
		return Outlook{}, err
	}
	scenarios, err := f.Site.choose(Cycle{Request: r}, plan.Warm)
	if err != nil {
		return Outlook{}, err
	}
	if r.Limits == (verdict.Limits{}) {
		r.Limits = verdict.DefaultLimits()
	}
	answers := plan.answersOf(r.Generator)
	plan = plan.generatedBy(r.Generator, answers > 1)
	tournament := f.Site.tournament(r, plan, answers)
	last := plan.Looks[len(plan.Looks)-1]
	o := Outlook{
		Profile: r.Profile, Driver: r.Driver, Limits: r.Limits, Pairs: last, Takes: plan.Expected(scenarios, last) + tournament,
		Calibration: time.Duration(2*plan.CalibrationPairs) * plan.Cost(scenarios, 1), Updated: known.Updated, Stale: known.Stale(now, setup),
	}
	var noise []verdict.Noise // of what would be run
	for _, s := range scenarios {
		of := known.of(s.Shape.Name)
		if len(of) == 0 {
			o.Unknown = append(o.Unknown, s.Shape.Name)
		}
		noise = append(noise, of...)
	}
	for _, e := range verdict.Resolve(noise, r.Limits, plan.Looks) {
		if o.Hardest == nil || e.Needed > o.Hardest.Needed {
			o.Hardest = &e
		}
	}
	if o.Hardest != nil {
		o.NeededTakes = plan.Expected(scenarios, o.Hardest.Needed) + tournament
	}
	o.Says = o.sentences(known, now)
	return o, nil
}

// sentences is the outlook for people.
func (o Outlook) sentences(known KnownNoise, now time.Time) string {
	measure := fmt.Sprintf("`retune doctor --noise --profile %s` measures it in about %s.", o.Profile, minutes(o.Calibration))
	if o.Hardest == nil {
		return fmt.Sprintf("The noise of this machine under %s with the driver %s is not known yet: a verdict needs more pairs, and may be inconclusive after the %d that %s makes. %s",
			o.Profile, o.Driver, o.Pairs, o.Profile, measure)
	}
	says := []string{o.decision(), fmt.Sprintf("The noise is known %s.", known.Basis(now))}
	if len(o.Unknown) > 0 {
		says = append(says, fmt.Sprintf("That of %s is not known yet. %s", strings.Join(o.Unknown, ", "), measure))
	}
	if len(o.Stale) > 0 {
		says = append(says, fmt.Sprintf("It is stale: %s. %s", strings.Join(o.Stale, "; "), measure))
	}
	return strings.Join(says, " ")
}

// decision says whether the profile can decide, and what it would take.
func (o Outlook) decision() string {
	h := *o.Hardest
	pairs, takes := counted(h.Needed, "pair"), minutes(o.NeededTakes)
	if h.Needed >= verdict.MostPairs {
		pairs, takes = fmt.Sprintf("%d pairs or more", verdict.MostPairs), "more than "+takes
	}
	what := fmt.Sprintf("%s in %s", metricWords(h.Metric), h.Scenario)
	if o.Decides() {
		return fmt.Sprintf("%s can decide here: a candidate that is just as good is mostly kept after %s (by %s), of %d at most (%s).",
			capital(string(o.Profile)), pairs, what, o.Pairs, minutes(o.Takes))
	}
	return fmt.Sprintf("%s can't be expected to decide here: %s differs by %s between two equal runs (standard deviation), so a candidate that is just as good is mostly kept after %s, which take %s; %s ends at %d, after %s. Take a longer profile or a wider limit, or quieten the machine.",
		capital(string(o.Profile)), what, scatterWords(h), pairs, takes, o.Profile, o.Pairs, minutes(o.Takes))
}

func metricWords(m verdict.Metric) string {
	switch m {
	case verdict.RPS:
		return "RPS"
	case verdict.ErrorRate:
		return "error rate"
	}
	return string(m)
}

func scatterWords(r verdict.Resolution) string {
	if r.Metric == verdict.ErrorRate {
		return fmt.Sprintf("%.2f points", 100*r.SD)
	}
	return fmt.Sprintf("%.1f%%", 100*math.Expm1(r.SD))
}

// minutes writes how long load takes.
func minutes(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return "a minute"
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.1f hours", d.Hours())
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
