package web

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// begun is when the story of these tests begins: a week of somebody's tuning.
var begun = time.Date(2026, time.November, 23, 2, 30, 0, 0, time.UTC)

// hostile is text that must never become markup.
const hostile = `<script>alert(1)</script>" onload="alert(2)`

// story is a store with a history: v1 to v6, and a cycle of each kind of ending; cycle 7 runs.
func story() *memory {
	m := newMemory()
	m.storyVersions()
	m.storyCycles()
	m.pointer = orchestrator.Pointer{Accepted: 5, Desired: 6, Generation: 14, Trial: 7, Applied: 6, AppliedGen: 14, Hash: m.versionList[5].Hash}
	m.noise = []orchestrator.KnownNoise{{Profile: loadtest.Quick, Driver: loadtest.Builtin, Updated: begun.Add(-50 * time.Hour), Known: knownNoise(), Setup: storySetup}}
	m.plans = []orchestrator.Schedule{
		{
			ID: 1, Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Athens", Profile: loadtest.Nightly, Generator: "openai", Driver: loadtest.K6,
			Missed: "run_once", Enabled: true, NextRun: begun.Add(9 * 24 * time.Hour), LastRun: begun.Add(96 * time.Hour), LastCycle: 5, Created: begun,
		},
		{
			ID: 2, Name: "weekend calibration", Cron: "0 4 * * 6", Zone: "UTC", Profile: loadtest.Quick, Generator: "local", Driver: loadtest.Builtin,
			Missed: "skip", LastNote: "Skipped on 28 Nov 04:00: cycle 6 was running.", Created: begun,
		},
	}
	return m
}

var storySetup = orchestrator.Setup{Machine: "linux/amd64, 2 processors", Driver: "vegeta v12.12.0", Proxy: "v0.3.0",
	Backends: "server-1=127.0.0.1:5001×6 server-2=127.0.0.1:5002×3 server-3=127.0.0.1:5003×2 server-4=127.0.0.1:5004×1"}

// storyOutlooks says what cycles can tell in the story, as a forecast over its noise.
func storyOutlooks(m *memory) func(context.Context, ...orchestrator.Request) ([]orchestrator.Outlook, error) {
	f := &orchestrator.Forecast{
		Site: orchestrator.Site{URL: "http://127.0.0.1:8080", Controls: map[string]string{"server-1": "http://127.0.0.1:5001/control"}},
		Driver: func(loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
			return nil, loadtest.Builtin, nil
		},
		Setup: func(context.Context, loadtest.Driver) orchestrator.Setup { return storySetup },
		Noise: m.AllNoise,
	}
	for _, s := range loadtest.Shapes() {
		f.Site.Scenarios = append(f.Site.Scenarios, loadtest.Scenario{Shape: s})
	}
	return func(ctx context.Context, requests ...orchestrator.Request) ([]orchestrator.Outlook, error) {
		return f.Outlooks(ctx, begun.Add(9*24*time.Hour), requests...)
	}
}

func knownNoise() (all []verdict.Noise) {
	for i, sc := range scenarios {
		all = append(all,
			verdict.Noise{Scenario: sc, Metric: verdict.P95, SD: 0.031 + 0.012*float64(i), Pairs: 8},
			verdict.Noise{Scenario: sc, Metric: verdict.RPS, SD: 0.006 + 0.002*float64(i), Pairs: 8},
			verdict.Noise{Scenario: sc, Metric: verdict.ErrorRate, SD: 0.0011, Pairs: 8})
	}
	return all
}

var scenarios = []string{"steady", "burst", "gradual", "failure", "sawtooth"}

func (m *memory) storyVersions() {
	for i, v := range []struct {
		parent  int
		origin  rules.Origin
		author  string
		status  ruleversions.Status
		cycle   int64
		summary string
		change  string // old → new text of the rule file
	}{
		{0, rules.OriginHuman, "retune", ruleversions.StatusRetired, 0, "The rules that a new installation starts with.", ""},
		{1, rules.OriginLocal, "local", ruleversions.StatusKept, 1, "Least connections for bursts: p95 31% lower than round robin.", "SPIKE:            { algorithm: ROUND_ROBIN→SPIKE:            { algorithm: LEAST_CONNECTIONS"},
		{2, rules.OriginLLM, "gpt-4o", ruleversions.StatusRolledBack, 2, "Address hashing while traffic grows, to keep caches warm.", "GRADUAL_INCREASE: { algorithm: LEAST_CONNECTIONS→GRADUAL_INCREASE: { algorithm: IP_HASH"},
		{2, rules.OriginLLM, "gpt-4o", ruleversions.StatusInconclusive, 3, hostile, "cooldown: 10s→cooldown: 20s"},
		{2, rules.OriginLLM, "gpt-4o", ruleversions.StatusActive, 5, "Peak EWMA for steady high traffic; an earlier answer to spikes.", "HIGH_STABLE:      { algorithm: WEIGHTED_ROUND_ROBIN→HIGH_STABLE:      { algorithm: P2C_PEAK_EWMA"},
		{5, rules.OriginLocal, "local", ruleversions.StatusOnTrial, 7, "Expected completion for an overloaded node.", "OVERLOADED_NODE:  { algorithm: WEIGHTED_LEAST_CONNECTIONS→OVERLOADED_NODE:  { algorithm: EXPECTED_COMPLETION"},
	} {
		text := firstRules
		if v.parent != 0 {
			text = m.versionList[v.parent-1].YAML
		}
		old, changed, _ := strings.Cut(v.change, "→")
		text = strings.Replace(text, old, changed, 1)
		text = header(i+1, v.parent, v.origin) + text[strings.Index(text, "detection:"):]
		set, _ := rules.Parse("v.yml", []byte(text))
		m.versionList = append(m.versionList, ruleversions.Version{
			Number: i + 1, Parent: v.parent, Origin: v.origin, Author: v.author, Rules: set, YAML: text, Hash: rules.Sum([]byte(text)),
			Summary: v.summary, CycleID: v.cycle, Status: v.status, Created: begun.Add(time.Duration(i) * 24 * time.Hour),
			Reasons: []ruleversions.Reason{
				{Path: "rules.SPIKE", Text: "In burst, LEAST_CONNECTIONS has p95 612 ms against 884 ms of ROUND_ROBIN, at 0.1% errors in both.", Unsupported: unsupportedIn(i)},
				{Path: "switching.cooldown", Text: "Two of 9 switches came back within 12 s. " + v.summary},
			},
		})
	}
}

func unsupportedIn(i int) []string {
	if i == 2 {
		return []string{"884 ms"}
	}
	return nil
}

func header(n, parent int, origin rules.Origin) string {
	return fmt.Sprintf("version: %d\nparent: %d\norigin: %s\n", n, parent, origin)
}

const firstRules = `version: 1
parent: 0
origin: human
detection:
  window: 10s
  low_traffic_rps: 5
  gradual_increase_rate: 0.3
  spike_rate: 1
  overload_error_rate: 0.1
  overload_latency: 500ms
  overload_latency_factor: 2
  latency_slope_windows: 6
switching:
  min_confidence: 0.6
  cooldown: 10s
  max_switches_per_minute: 3
  sustained_windows: 3
  spike_sustained_windows: 2
rules:
  LOW_TRAFFIC:      { algorithm: ROUND_ROBIN, reason: "Any choice is as good as another below 5 rps." }
  HIGH_STABLE:      { algorithm: WEIGHTED_ROUND_ROBIN, reason: "Weights follow what the backends can do." }
  GRADUAL_INCREASE: { algorithm: LEAST_CONNECTIONS, reason: "Growing queues show in connections first." }
  SPIKE:            { algorithm: ROUND_ROBIN, reason: "Spread a sudden rise evenly." }
  OVERLOADED_NODE:  { algorithm: WEIGHTED_LEAST_CONNECTIONS, reason: "Leave the slow one alone until its queue is gone." }
`

func (m *memory) storyCycles() {
	tuned := func(g string, p loadtest.Profile, d loadtest.Driver) orchestrator.Request {
		return orchestrator.Request{Kind: orchestrator.Tune, Trigger: "web", Target: "default", Profile: p, Generator: g, Driver: d, Limits: verdict.DefaultLimits()}
	}
	for i, c := range []struct {
		request             orchestrator.Request
		status              orchestrator.Status
		champion, candidate int
		effect              float64
		why                 string
	}{
		{tuned("local", loadtest.Quick, loadtest.Builtin), orchestrator.Kept, 1, 2, -0.31, "p95 in burst fell by 31% (−36% to −26%), and nothing else got worse than its limit."},
		{tuned("openai", loadtest.Quick, loadtest.Builtin), orchestrator.RolledBack, 2, 3, 0.42, "p95 in burst rose by 42% (+33% to +52%), limit +15%. v2 was put back and its hash read back."},
		{tuned("openai", loadtest.Quick, loadtest.Builtin), orchestrator.Inconclusive, 2, 4, 0.11, "p95 in burst rose by 11% (−2% to +26%), limit +15%: 4 pairs could not tell. About 3 more would."},
		{tuned("openai", loadtest.Standard, loadtest.K6), orchestrator.Failed, 2, 0, 0, "Scenario failure had two invalid runs in a row: the load generator used 92% of a core. Close other programs, or lower the rate."},
		{tuned("openai", loadtest.Nightly, loadtest.K6), orchestrator.Kept, 2, 5, -0.12, "p95 in burst fell by 12% (−17% to −7%), and nothing else got worse than its limit."},
		{tuned("local", loadtest.Quick, loadtest.Builtin), orchestrator.Cancelled, 5, 0, 0, "Cancelled by kostas during baseline. v5 stayed active."},
		{tuned("local", loadtest.Quick, loadtest.Builtin), orchestrator.Verifying, 5, 6, 0, ""},
	} {
		start := begun.Add(time.Duration(i) * 24 * time.Hour)
		if !c.status.Ended() {
			start = time.Now().Add(-17 * time.Minute) // as long as its runs so far took
		}
		cy := orchestrator.Cycle{
			ID: int64(i + 1), Request: c.request, Status: c.status, Champion: c.champion, Candidate: c.candidate, Why: c.why,
			Created: start, Started: start.Add(time.Second), Evidence: json.RawMessage(`{"profile":"quick","scenarios":[{"scenario":"burst","rps":118.4,"p95_ms":612}]}`),
		}
		if c.status.Ended() {
			cy.Finished = start.Add(5*time.Minute + 41*time.Second)
		}
		if c.effect != 0 {
			v := storyVerdict(verdict.Outcome(c.status), c.effect, c.why)
			cy.Verdict = &v
		}
		m.cycleList = append(m.cycleList, cy)
		m.storySteps(cy)
		m.storyRuns(cy)
		m.storyCalls(cy)
		m.storyProposals(cy)
	}
	m.storyJournal()
	m.storyDetection()
	m.live[7] = orchestrator.Live{
		CycleID: 7, Status: orchestrator.Verifying, Detail: "pair 2 of 4, burst, candidate v6", Share: 0.58, Remaining: 148 * time.Second,
		Arm: orchestrator.ArmCandidate, At: time.Now(),
		Load: loadtest.Progress{Scenario: "burst", Phase: "peak", Elapsed: 12 * time.Second, Planned: 25 * time.Second, RPS: 118, P50MS: 142, P95MS: 604, P99MS: 880, ErrorRate: 0.004},
	}
	for i, mv := range []orchestrator.Move{
		{Kind: orchestrator.MoveSeed, Version: 1, Actor: "retune", Reason: "first start"},
		{Kind: orchestrator.MoveAccept, Version: 2, Cycle: 1, Actor: "retune", Reason: m.cycleList[0].Why},
		{Kind: orchestrator.MoveRollback, Version: 2, Cycle: 2, Actor: "retune", Reason: m.cycleList[1].Why},
		{Kind: orchestrator.MoveAccept, Version: 5, Cycle: 5, Actor: "retune", Reason: m.cycleList[4].Why},
	} {
		at := begun.Add(time.Duration(i)*24*time.Hour + 6*time.Minute)
		m.moves = append(m.moves, orchestrator.Activation{Move: mv, Previous: max(0, mv.Version-1), Generation: int64(i + 1), Requested: at, Applied: at.Add(40 * time.Millisecond)})
	}
}

// storyVerdict puts the effect that decided into the p95 of burst.
func storyVerdict(o verdict.Outcome, effect float64, why string) verdict.Verdict {
	v := verdict.Verdict{Outcome: o, Reason: why, Pairs: 4, Look: 3, Limits: verdict.DefaultLimits()}
	for _, sc := range scenarios {
		e, half := -0.01, 0.05
		f := verdict.Finding{Scenario: sc, HoldOut: sc == "sawtooth", Metric: verdict.P95, Champion: 612, Limit: 0.15, Outcome: verdict.Kept, Pairs: 4}
		if sc == "burst" {
			e, f.Outcome = effect, o
			if o == verdict.Inconclusive {
				half, f.MorePairs, v.MorePairs = 0.14, 3, 3
			}
		}
		f.Effect, f.Low, f.High, f.Candidate = e, e-half, e+half, f.Champion*(1+e)
		v.Findings = append(v.Findings, f,
			verdict.Finding{Scenario: sc, HoldOut: f.HoldOut, Metric: verdict.RPS, Champion: 118.4, Candidate: 118.9, Effect: 0.004, Low: -0.008, High: 0.016, Limit: -0.15, Outcome: verdict.Kept, Pairs: 4},
			verdict.Finding{Scenario: sc, HoldOut: f.HoldOut, Metric: verdict.ErrorRate, Champion: 0.004, Candidate: 0.0052, Effect: 0.0012, Low: -0.0006, High: 0.003, Limit: 0.02, Outcome: verdict.Kept, Pairs: 4})
	}
	if o == verdict.Inconclusive {
		v.Warnings = []string{"The noise of this machine is known from 2 pairs only: more would sharpen the verdict."}
	}
	return v
}

func (m *memory) storySteps(cy orchestrator.Cycle) {
	at := cy.Created
	add := func(name orchestrator.Status, took time.Duration, detail string) {
		st := orchestrator.Step{Seq: len(m.steps[cy.ID]) + 1, Name: name, Started: at, Detail: detail}
		if at = at.Add(took); took > 0 {
			st.Finished = at
		}
		m.steps[cy.ID] = append(m.steps[cy.ID], st)
	}
	add(orchestrator.Queued, time.Second, "Asked for in the browser.")
	add(orchestrator.Baseline, 92*time.Second, "Measured v"+fmt.Sprint(cy.Champion)+" in steady, burst, gradual and failure.")
	if cy.Candidate != 0 {
		add(orchestrator.Generating, 4*time.Second, "1 rule changed, 0 thresholds; the replay switched 9 times.")
		add(orchestrator.Applying, time.Second, fmt.Sprintf("v%d over v%d, confirmed by its hash.", cy.Candidate, cy.Champion))
		add(orchestrator.Settling, 30*time.Second, "Errors 0.4%, as in the baseline.")
		if cy.Status == orchestrator.Verifying {
			add(orchestrator.Verifying, 0, "Pair 2 of 4.")
			return
		}
		add(orchestrator.Verifying, 212*time.Second, "4 pairs in each of 5 scenarios.")
	}
	add(cy.Status, 0, cy.Why)
}

func (m *memory) storyRuns(cy orchestrator.Cycle) {
	rnd := rand.New(rand.NewPCG(uint64(cy.ID), 7))
	at := cy.Started
	add := func(sc string, arm orchestrator.Arm, pair, version int, algorithm balance.Algorithm) {
		r := orchestrator.Run{ID: int64(len(m.runList) + 1), CycleID: cy.ID, Scenario: sc, HoldOut: sc == "sawtooth", Arm: arm, Pair: pair, Version: version, Algorithm: algorithm, Seed: 42}
		r.Result = storyResult(rnd, sc, cy.Driver, at)
		if cy.Status == orchestrator.Failed && sc == "failure" {
			r.Result.DriverCPU = 0.92
			r.Result.Invalid = []string{"The driver used 92% of a core; beyond 80% it measures itself. Lower the rates."}
		}
		if sc == "gradual" {
			r.Result.DriverCPU, r.Result.Dropped = 0.74, 17
		}
		at = at.Add(r.Result.Duration + 3*time.Second)
		m.runList = append(m.runList, r)
	}
	for _, sc := range scenarios {
		add(sc, orchestrator.ArmBaseline, 0, cy.Champion, "")
	}
	if cy.Candidate == 0 {
		return
	}
	if cy.Generator == "local" {
		add("burst", orchestrator.ArmScreen, 0, 0, balance.WeightedLeastConnections)
	}
	for pair := 1; pair <= 2; pair++ {
		for _, sc := range scenarios {
			add(sc, orchestrator.ArmChampion, pair, cy.Champion, "")
			add(sc, orchestrator.ArmCandidate, pair, cy.Candidate, "")
		}
	}
}

func storyResult(rnd *rand.Rand, sc string, d loadtest.Driver, at time.Time) loadtest.Result {
	const seconds = 40
	r := loadtest.Result{
		Scenario: sc, Driver: d, DriverVersion: "1.2.0", Started: at, Duration: seconds * time.Second,
		AvgMS: 171, P50MS: 138, P90MS: 402, P95MS: 590 + 40*rnd.Float64(), P99MS: 902, MaxMS: 1480, DriverCPU: 0.21, Dropped: 0,
	}
	for i := range seconds {
		rate := 60.0
		if sc == "burst" && i >= 12 && i < 28 {
			rate = 240
		}
		if sc == "gradual" {
			rate = 30 + 3*float64(i)
		}
		n := int64(rate * (0.97 + 0.06*rnd.Float64()))
		load := 1 + math.Max(0, rate-60)/160
		sec := loadtest.Second{Requests: n, AvgMS: 150 * load, P50MS: 130 * load, P95MS: (500 + 90*rnd.Float64()) * load, P99MS: (760 + 120*rnd.Float64()) * load}
		if sc == "failure" && i >= 14 && i < 17 {
			sec.Failed = n / 20
		}
		r.Series = append(r.Series, sec)
		r.Requests += n
		r.Failed += sec.Failed
	}
	if sc == "failure" {
		r.Marks = []loadtest.Mark{{At: 14 * time.Second, Action: "fail", Detail: "server-1"}, {At: 28 * time.Second, Action: "revive", Detail: "server-1"}}
	}
	r.Planned, r.RPS = r.Requests+3, float64(r.Requests-r.Failed)/seconds
	r.ErrorRate = float64(r.Failed) / float64(r.Requests)
	r.Status = map[string]int64{"200": r.Requests - r.Failed, "503": r.Failed}
	return r
}

func (m *memory) storyCalls(cy orchestrator.Cycle) {
	if cy.Generator != "openai" || cy.Candidate == 0 {
		return
	}
	price := 0.0118
	m.calls[cy.ID] = []advisor.Call{
		{Provider: "openai", Model: "gpt-4o", Temperature: 0.3, Request: `{"model":"gpt-4o","temperature":0.3}`, Response: `{"rules": [` + hostile, Outcome: advisor.CallInvalidJSON, Error: "unexpected end of JSON input", PromptTokens: 1804, CompletionTokens: 512, Latency: 3100 * time.Millisecond},
		{Provider: "openai", Model: "gpt-4o", Temperature: 0.3, Request: `{"model":"gpt-4o"}`, Response: `{"summary":"…"}`, Outcome: advisor.CallOK, PromptTokens: 2140, CompletionTokens: 498, CostUSD: &price, Prices: advisor.PricesAsOf, Latency: 2800 * time.Millisecond},
	}
}

// storyJournal gives cycle 1's first burst run a switch, with the windows around it.
func (m *memory) storyJournal() {
	var run orchestrator.Run
	for _, r := range m.runList {
		if r.CycleID == 1 && r.Scenario == "burst" {
			run = r
			break
		}
	}
	held := steering.Decision{State: traffic.HighStable, Algorithm: balance.WeightedRoundRobin, PreviousAlgorithm: balance.WeightedRoundRobin, Confidence: 0.81, Reason: "HIGH_STABLE: rps 59.8 → 60.4, rate +0.01. WEIGHTED_ROUND_ROBIN by rule v1. Gates: same state."}
	switched := steering.Decision{State: traffic.Spike, Algorithm: balance.LeastConnections, PreviousAlgorithm: balance.WeightedRoundRobin, PreviousState: traffic.HighStable, Switched: true, Confidence: 0.93, Reason: `SPIKE: rps 60.4 → 238.7, rate +2.95 (threshold 1.00), confidence 0.99. LEAST_CONNECTIONS by rule v1: "Spread a sudden rise." Gates: cooldown ok, 2/2 windows, 1/3 switches this minute.`}
	for i := range 20 { // the burst is from second 12 to 28, the switch at second 18
		at, p95, load, d, in := 2*i+2, 540+20*float64(i%2), 60.0, held, "0/2 windows"
		if at > 12 && at <= 28 {
			p95, load = 1400+40*float64(i%2), 240
		}
		if at > 18 {
			p95 *= 0.7
		}
		if at == 18 {
			d, in = switched, "2/2 windows"
		}
		d.Seq, d.At, d.RulesVersion, d.Cause, d.BootID = uint64(i+1), run.Result.Started.Add(time.Duration(at)*time.Second), 1, steering.CauseWindow, "b1"
		d.Gates = []steering.Gate{{Name: "same_state", Passed: d.Switched, Detail: string(d.State)}, {Name: "confidence", Passed: true, Detail: "0.93 of 0.60"}, {Name: "sustained", Passed: d.Switched, Detail: in}}
		d.Snapshot = traffic.Snapshot{Seq: d.Seq, At: d.At, Window: 2 * time.Second, Requests: uint64(2 * load), RPS: load, P95MS: p95, State: d.State}
		m.decisions[1] = append(m.decisions[1], d)
	}
}

// storyDetection names the windows of cycle 1's runs: right but for the ramp's beginning and a calm taken for steady
// load. What the generator was told of it stands in the evidence.
func (m *memory) storyDetection() {
	for _, r := range m.runList {
		shape, err := loadtest.Load(r.Scenario)
		if err != nil || r.CycleID != 1 || r.Arm == orchestrator.ArmScreen {
			continue
		}
		shape = shape.Scaled(loadtest.Quick)
		var seen []traffic.Snapshot
		for at := 1200 * time.Millisecond; at <= shape.Duration(); at += 2 * time.Second {
			s := traffic.Snapshot{At: r.Result.Started.Add(at), Window: 2 * time.Second, State: traffic.HighStable}
			switch {
			case r.Scenario == "burst" && at > 3*time.Second && at < 9*time.Second:
				s.State = traffic.Spike
			case r.Scenario == "gradual" && at > 4*time.Second && at < 9*time.Second:
				s.State = traffic.GradualIncrease
			case r.Scenario == "failure" && at > 5*time.Second && at < 12*time.Second:
				s.State = traffic.OverloadedNode
			}
			seen = append(seen, s)
		}
		report, _ := detection.Of(shape, r.Result.Started, seen)
		if r.Arm == orchestrator.ArmBaseline && !shape.HoldOut {
			report = report.Labelled("local", slices.Repeat([]traffic.State{traffic.HighStable}, len(seen)))
		}
		m.detections[1] = append(m.detections[1], orchestrator.RunDetection{Run: r.ID, Arm: r.Arm, Version: r.Version, Report: report})
	}
	told := advisor.Evidence{Profile: "quick", Detection: &advisor.Detection{Suggestions: []detection.Suggestion{{
		Path: "detection.low_traffic_rps", State: traffic.LowTraffic, Now: "5", Better: "18", Cases: 2, Others: 9, Nearest: 7.1, Against: 29.4, WrongNow: 2,
		Why: "rps at most 7.1 rps in 2 cases that truly were LOW_TRAFFIC, at least 29.4 rps in 9 others: 18 names 11 of 11 right, 5 names 9",
	}}}}
	m.cycleList[0].Evidence, _ = json.Marshal(told) // plain values
}

// storyProxy is a proxy under light traffic with one backend down.
func storyProxy() steering.Status {
	return steering.Status{
		Mode: steering.Mode{Mode: "adaptive"}, Algorithm: balance.P2CPeakEWMA, State: traffic.HighStable,
		Rules: steering.RulesStatus{Version: 6, Generation: 14}, UptimeS: 92_541,
		Backends: []steering.BackendStatus{
			{ID: "server-1", URL: "http://127.0.0.1:5001", Weight: 6, Health: "healthy", InFlight: 7, AvgLatencyMS: 52.1, Requests: 1_284_113, Errors: 12},
			{ID: "server-2", URL: "http://127.0.0.1:5002", Weight: 3, Health: "healthy", InFlight: 11, AvgLatencyMS: 154, Requests: 642_871, Errors: 9},
			{ID: "server-3", URL: "http://127.0.0.1:5003", Weight: 2, Health: "slow_start", InFlight: 3, AvgLatencyMS: 311, Requests: 240_118, Errors: 4},
			{ID: "server-4", URL: "http://127.0.0.1:5004", Weight: 1, Health: "unhealthy", Why: "connection refused, 3 checks in a row", AvgLatencyMS: 498, Requests: 98_231, Errors: 218},
		},
	}
}
