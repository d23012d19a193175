package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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

// ledger is a Ledger and a Notebook in memory.
type ledger struct {
	mu       sync.Mutex
	pointer  orchestrator.Pointer
	versions []ruleversions.Version
	saved    []orchestrator.Cycle
	details  []string // of what was saved
	moves    []orchestrator.MoveKind
	runs     []orchestrator.Run
	attempts []advisor.Attempt
	judged   []advisor.Attempt          // of rules that do what those of their version do
	noted    []orchestrator.Proposal    // as they were stored last
	reports  map[int64]detection.Report // by run
	down     bool                       // every write fails
	hangs    bool                       // every write waits for the end of its context
	saveErr  error                      // what Save answers
	afterRun func(n int)                // called when a run is stored
	kept     func()                     // called when a cycle is stored as kept
}

var errDown = errors.New("connection refused")

func newLedger() *ledger {
	l := &ledger{}
	v := l.add(ruleversions.Draft{Rules: rules.Default(), Origin: rules.OriginHuman})
	l.pointer = orchestrator.Pointer{Accepted: 1, Desired: 1, Generation: 1, Hash: v.Hash, Newest: 1}
	return l
}

func (l *ledger) add(d ruleversions.Draft) ruleversions.Version {
	rs := d.Rules
	rs.Version, rs.Parent, rs.Origin = len(l.versions)+1, d.Parent, d.Origin
	yaml := rules.Render(rs)
	v := ruleversions.Version{Number: rs.Version, Parent: d.Parent, Rules: rs, YAML: string(yaml), Hash: rules.Sum(yaml), Reasons: d.Reasons}
	l.versions = append(l.versions, v)
	return v
}

func (l *ledger) Pointer(ctx context.Context) (orchestrator.Pointer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return orchestrator.Pointer{}, errDown
	}
	return l.pointer, ctx.Err()
}

func (l *ledger) Version(_ context.Context, n int) (ruleversions.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 1 || n > len(l.versions) {
		return ruleversions.Version{}, orchestrator.ErrNotFound
	}
	return l.versions[n-1], nil
}

func (l *ledger) Append(_ context.Context, d ruleversions.Draft) (ruleversions.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Parent != l.pointer.Accepted {
		return ruleversions.Version{}, orchestrator.ErrStale
	}
	return l.add(d), nil
}

func (l *ledger) Move(ctx context.Context, m orchestrator.Move) (orchestrator.Pointer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangs {
		<-ctx.Done()
		return orchestrator.Pointer{}, ctx.Err()
	}
	if l.down {
		return orchestrator.Pointer{}, errDown
	}
	l.moves = append(l.moves, m.Kind)
	l.pointer.Generation++
	l.pointer.Desired, l.pointer.Trial, l.pointer.Proposal = m.Version, m.Cycle, m.Proposal
	if m.Kind == orchestrator.MoveRollback {
		l.pointer.Desired, l.pointer.Trial = l.pointer.Accepted, 0
	}
	l.pointer.Hash = l.versions[l.pointer.Desired-1].Hash
	return l.pointer, nil
}

func (l *ledger) Applied(context.Context, int, int64) error { return nil }

func (l *ledger) Save(ctx context.Context, c orchestrator.Cycle, detail string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if l.down {
		return errDown
	}
	if l.saveErr != nil {
		return l.saveErr
	}
	if c.Status == orchestrator.Kept {
		l.pointer.Accepted, l.pointer.Trial = c.Candidate, 0
		if l.kept != nil {
			l.kept()
		}
	}
	l.saved, l.details = append(l.saved, c), append(l.details, detail)
	return ctx.Err() // it is stored, but the answer comes too late
}

func (l *ledger) statuses() (all []orchestrator.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.saved {
		all = append(all, c.Status)
	}
	return slices.Compact(all)
}

func (l *ledger) SaveRun(_ context.Context, r orchestrator.Run) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, r)
	if l.afterRun != nil {
		l.afterRun(len(l.runs))
	}
	return int64(len(l.runs)), nil
}

func (l *ledger) SetAside(_ context.Context, run int64, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run-1].Result.Invalid = append(l.runs[run-1].Result.Invalid, why)
	return nil
}
func (l *ledger) SaveCalls(context.Context, int64, int, []advisor.Call) error { return nil }
func (l *ledger) SaveJournal(context.Context, int64, int64, []steering.Decision, []traffic.Snapshot) error {
	return nil
}
func (l *ledger) SaveDetection(_ context.Context, run int64, r detection.Report) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reports == nil {
		l.reports = map[int64]detection.Report{}
	}
	l.reports[run] = r
	return nil
}
func (l *ledger) SaveLive(context.Context, orchestrator.Live) error { return nil }
func (l *ledger) Noise(context.Context, loadtest.Profile, loadtest.Driver) ([]verdict.Noise, error) {
	return nil, nil
}

func (l *ledger) Judged(_ context.Context, rs rules.RuleSet) (same []advisor.Attempt, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.judged {
		if rules.Same(rs, l.versions[a.Version-1].Rules) {
			same = append(same, a)
		}
	}
	return same, nil
}

func (l *ledger) SaveProposals(_ context.Context, _ int64, all []orchestrator.Proposal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = slices.Clone(all)
	return nil
}
func (l *ledger) Attempts(context.Context, int) ([]advisor.Attempt, error) { return l.attempts, nil }

// proxies is a Target and a Journal in memory.
type proxies struct {
	mu     sync.Mutex
	now    rules.Active
	rules  rules.RuleSet // of now
	safe   bool          // the built-in safe rules are in force
	refuse error         // what Apply answers …
	only   int           // … to this version; 0: to any
	dead   error         // what Serving answers
	mode   steering.Mode
	seen   []traffic.Snapshot // what Snapshots answers
}

func (p *proxies) Apply(ctx context.Context, v ruleversions.Version, generation int64, trial bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.refuse != nil && (p.only == 0 || p.only == v.Number) {
		return p.refuse
	}
	p.safe = v.Number == 0
	if p.now.Hash == v.Hash && p.now.Generation == generation && p.now.Trial == trial {
		return nil
	}
	p.rules = v.Rules
	p.now = rules.Active{Version: v.Number, Hash: v.Hash, Generation: generation, Trial: trial, BootID: "boot-1", EffectiveAt: time.Now()}
	return nil
}

func (p *proxies) Serving(context.Context) (rules.Active, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.dead
}

func (p *proxies) serves() int {
	now, _ := p.Serving(context.Background())
	return now.Version
}

// spike is the algorithm for SPIKE in force.
func (p *proxies) spike() balance.Algorithm {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.Rules[traffic.Spike].Algorithm
}

func (p *proxies) SetMode(ctx context.Context, m steering.Mode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.mode = m
	}
	return ctx.Err()
}
func (p *proxies) Decisions(context.Context, time.Time) ([]steering.Decision, error) {
	return nil, nil
}
func (p *proxies) Snapshots(context.Context, time.Time) ([]traffic.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, nil
}

// load is a LoadRunner whose figures are those of the version that serves.
type load struct {
	proxies *proxies
	p95     map[int]float64               // by version; 100 ms by default
	spike   map[balance.Algorithm]float64 // likewise by the algorithm for SPIKE that is in force
	errors  map[int]float64
	invalid int                                // how many of the next runs are no evidence
	during  func(run int, s loadtest.Scenario) // called in the middle of each run
	fail    func(run int, s loadtest.Scenario) error
	tell    func(run int, s loadtest.Scenario, version int, r *loadtest.Result) // changes what a run measured
	made    atomic.Int64
}

// started is when the measured load of every run began.
func (l *load) started() time.Time { return time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC) }

func (l *load) Run(ctx context.Context, s loadtest.Scenario, progress func(loadtest.Progress)) (loadtest.Result, error) {
	made := int(l.made.Add(1))
	if l.during != nil {
		l.during(made, s)
	}
	if l.fail != nil {
		if err := l.fail(made, s); err != nil {
			return loadtest.Result{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return loadtest.Result{}, err
	}
	progress(loadtest.Progress{Scenario: s.Shape.Name, Elapsed: time.Second, RPS: 80})
	v := l.proxies.serves()
	p95, ok := l.p95[v]
	if by, is := l.spike[l.proxies.spike()]; is {
		p95, ok = by, true
	}
	if !ok {
		p95 = 100
	}
	jitter := 1 + 0.01*float64(made%3)
	r := loadtest.Result{Scenario: s.Shape.Name, Started: l.started(), Requests: 5000, RPS: 80, P95MS: p95 * jitter, P50MS: 20, P99MS: 2 * p95, AvgMS: 30, ErrorRate: l.errors[v]}
	if l.invalid > 0 {
		l.invalid--
		r.Invalid = []string{"3 measured requests, want at least 100"}
	}
	if l.tell != nil {
		l.tell(made, s, v, &r)
	}
	return r, nil
}

// proposes is an Advisor that answers with the champion's rules, another algorithm for SPIKE.
type proposes struct {
	algorithm balance.Algorithm
	err       error
}

func (p proposes) Advise(_ context.Context, e advisor.Evidence) (advisor.Advice, error) {
	rs := e.Champion
	rs.Rules = map[traffic.State]rules.Rule{}
	for s, r := range e.Champion.Rules {
		rs.Rules[s] = r
	}
	rs.Rules[traffic.Spike] = rules.Rule{Algorithm: p.algorithm, Reason: "a test"}
	return advisor.Advice{Rules: rs, Origin: rules.OriginLocal, Author: "test"}, p.err
}

func (p proposes) Proposals(ctx context.Context, e advisor.Evidence, _ int) (advisor.Proposals, error) {
	a, err := p.Advise(ctx, e)
	if err != nil {
		return advisor.Proposals{}, err
	}
	return advisor.Proposals{Advice: []advisor.Advice{a}}, nil
}

// bench is a tuner on fakes.
type bench struct {
	ledger  *ledger
	proxies *proxies
	load    *load
	tuner   *orchestrator.Tuner
}

func newBench(g orchestrator.Advisor) *bench {
	b := &bench{ledger: newLedger(), proxies: &proxies{}}
	b.load = &load{proxies: b.proxies, p95: map[int]float64{}, errors: map[int]float64{}}
	log := slog.New(slog.DiscardHandler)
	converger := &orchestrator.Converger{Target: b.proxies, Ledger: b.ledger, Log: log}
	if err := converger.Converge(context.Background()); err != nil {
		panic(fmt.Sprint("converging on v1: ", err))
	}
	steady, _ := loadtest.Load("steady")
	burst, _ := loadtest.Load("burst")
	b.tuner = &orchestrator.Tuner{Target: b.proxies, Journal: b.proxies, Ledger: b.ledger, Notebook: b.ledger, Converger: converger,
		Site: orchestrator.Site{URL: "http://target", Scenarios: []loadtest.Scenario{{Shape: steady}, {Shape: burst}}},
		Driver: func(loadtest.Driver) (orchestrator.LoadRunner, loadtest.Driver, error) {
			return b.load, loadtest.Builtin, nil
		},
		Generators: map[string]orchestrator.Advisor{"test": g}, Log: log}
	return b
}

func request() orchestrator.Cycle {
	return orchestrator.Cycle{ID: 7, Request: orchestrator.Request{Kind: orchestrator.Tune, Profile: loadtest.Standard, Generator: "test", Limits: verdict.DefaultLimits()}}
}
