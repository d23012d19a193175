package orchestrator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
)

// Plan is a profile in figures: how long and how hard a cycle measures.
type Plan struct {
	// TimeScale shortens the proxy's window and cooldown, so that a short run still holds several windows.
	TimeScale float64
	// Looks are the numbers of pairs after which the judge is asked; fixed beforehand.
	Looks []int
	// Warm is unmeasured load before each run: one window and a little more.
	Warm time.Duration
	// Settle is how long a candidate runs under background load before it is measured: three windows.
	Settle time.Duration
	// Screen is the algorithms that are measured for the generator, and ScreenShare how much of a run's length each gets.
	Screen      []balance.Algorithm
	ScreenShare float64
	// Answers is how many rule sets a model is asked for. More than one make a tournament, in which the local generator takes part;
	// Rounds is how often each proposal is then screened in every scenario.
	Answers, Rounds int
	// CalibrationPairs is how many pairs of equal arms a calibration makes per scenario.
	CalibrationPairs int
}

// window is the proxy's window at time scale 1, by which warm-up and settling are sized.
const window = 10 * time.Second

// PlanFor is the plan of a profile; ErrInvalid for an unknown one.
func PlanFor(p loadtest.Profile) (Plan, error) {
	plan := Plan{TimeScale: 1, Looks: verdict.ShouldLook(p), Screen: balance.Algorithms(), ScreenShare: 0.2, CalibrationPairs: 5,
		Answers: 2, Rounds: 1}
	switch p {
	case loadtest.Quick:
		plan.TimeScale, plan.ScreenShare, plan.CalibrationPairs, plan.Answers = 0.2, 0.35, 3, 1
		plan.Screen = []balance.Algorithm{balance.LeastConnections, balance.LeastResponseTime, balance.P2CPeakEWMA, balance.ExpectedCompletion}
	case loadtest.Standard:
	case loadtest.Nightly:
		plan.ScreenShare, plan.CalibrationPairs, plan.Answers, plan.Rounds = 0.1, 8, 4, 3
	default:
		return Plan{}, fmt.Errorf("%w: profile %q: use quick, standard or nightly", ErrInvalid, p)
	}
	plan.Warm = scaled(window+2*time.Second, plan.TimeScale)
	plan.Settle = scaled(3*window, plan.TimeScale)
	return plan, nil
}

// answersOf is how many rule sets a generator is asked for: of a model more than one, where the profile has the time to screen them.
func (p Plan) answersOf(generator string) int {
	if generator == "" || generator == "file" || generator == local {
		return 1
	}
	return p.Answers
}

// generatedBy is the plan with what its generator needs: the local one every algorithm's figures, a model none, and the local
// one in a model's tournament few: the algorithms that most often beat others, for half as long.
func (p Plan) generatedBy(generator string, tournament bool) Plan {
	switch {
	case tournament:
		p.Screen, p.ScreenShare = []balance.Algorithm{balance.P2CPeakEWMA, balance.ExpectedCompletion}, p.ScreenShare/2
	case generator != local:
		p.Screen = nil
	}
	return p
}

// overhead is what a run costs beside its load: starting the driver, draining, reading the journal.
const overhead = 1500 * time.Millisecond

// Cost is how long one run of each scenario takes, in all.
func (p Plan) Cost(scenarios []loadtest.Scenario, share float64) (d time.Duration) {
	for _, s := range scenarios {
		d += p.Warm + scaled(s.Shape.Duration(), share) + overhead
	}
	return d
}

// Expected is how long a whole cycle takes when the judge decides after the given number of pairs, without a tournament.
func (p Plan) Expected(scenarios []loadtest.Scenario, pairs int) time.Duration {
	d := p.Cost(scenarios, 1) + p.Settle + overhead + time.Duration(2*pairs)*p.Cost(scenarios, 1)
	p.Warm = min(p.Warm, screenWarm)
	return d + time.Duration(len(p.Screen))*p.Cost(withoutHeldOut(scenarios), p.ScreenShare)
}

// withoutHeldOut is what is left for choosing: whatever is chosen by a held-out scenario has been tuned to it.
func withoutHeldOut(all []loadtest.Scenario) []loadtest.Scenario {
	return slices.DeleteFunc(slices.Clone(all), func(s loadtest.Scenario) bool { return s.Shape.HoldOut })
}

// shorten gives every phase and event of a shape the same share of its length.
func shorten(s loadtest.Shape, share float64) loadtest.Shape {
	s.Phases = append([]loadtest.Phase(nil), s.Phases...)
	for i := range s.Phases {
		s.Phases[i].Duration = loadtest.Duration(scaled(time.Duration(s.Phases[i].Duration), share))
	}
	s.Events = append([]loadtest.Event(nil), s.Events...)
	for i := range s.Events {
		s.Events[i].At = loadtest.Duration(scaled(time.Duration(s.Events[i].At), share))
	}
	return s
}

// background is a constant load at a scenario's mean rate.
func background(s loadtest.Scenario, d time.Duration) loadtest.Scenario {
	rate := math.Round(float64(s.Shape.Planned()) / s.Shape.Duration().Seconds())
	s.Script, s.Shape.Name, s.Shape.Events = "", "settle", nil
	s.Shape.Phases = []loadtest.Phase{{Name: "settle", Duration: loadtest.Duration(d), From: rate, To: rate}}
	return s
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
