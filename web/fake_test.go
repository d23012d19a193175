package web

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/ruleversions"
)

// memory is a store that keeps its promises: one cycle at a time, versions only grow, a stale parent is refused,
// nothing changes during a trial. It guards all that it holds with mu.
type memory struct {
	mu          sync.Mutex
	pointer     orchestrator.Pointer
	versionList []ruleversions.Version
	cycleList   []orchestrator.Cycle
	steps       map[int64][]orchestrator.Step
	live        map[int64]orchestrator.Live
	runList     []orchestrator.Run
	calls       map[int64][]advisor.Call
	proposals   map[int64][]orchestrator.Proposal
	decisions   map[int64][]steering.Decision
	detections  map[int64][]orchestrator.RunDetection
	noise       []orchestrator.KnownNoise
	moves       []orchestrator.Activation
	plans       []orchestrator.Schedule
}

func newMemory() *memory {
	return &memory{
		steps: map[int64][]orchestrator.Step{}, live: map[int64]orchestrator.Live{}, calls: map[int64][]advisor.Call{}, proposals: map[int64][]orchestrator.Proposal{},
		decisions: map[int64][]steering.Decision{}, detections: map[int64][]orchestrator.RunDetection{},
	}
}

func (m *memory) locked() func() {
	m.mu.Lock()
	return m.mu.Unlock
}

func (m *memory) Enqueue(_ context.Context, r orchestrator.Request) (orchestrator.Cycle, error) {
	defer m.locked()()
	return m.enqueueLocked(r)
}

func (m *memory) enqueueLocked(r orchestrator.Request) (orchestrator.Cycle, error) {
	for _, c := range m.cycleList {
		if !c.Status.Ended() && c.Target == r.Target {
			return c, fmt.Errorf("cycle %d: %w", c.ID, orchestrator.ErrBusy)
		}
	}
	now := time.Now()
	c := orchestrator.Cycle{ID: int64(len(m.cycleList) + 1), Request: r, Status: orchestrator.Queued, Champion: m.pointer.Accepted, Created: now}
	m.cycleList = append(m.cycleList, c)
	m.steps[c.ID] = []orchestrator.Step{{Seq: 1, Name: orchestrator.Queued, Started: now, Detail: "asked for by " + r.Trigger}}
	return c, nil
}

// end finishes a cycle, as the orchestrator would.
func (m *memory) end(id int64, status orchestrator.Status, why string) {
	defer m.locked()()
	c := &m.cycleList[id-1]
	c.Status, c.Why, c.Finished = status, why, time.Now()
	m.pointer.Trial, m.pointer.Desired = 0, m.pointer.Accepted
}

func (m *memory) Cancel(_ context.Context, id int64, _ string) error {
	defer m.locked()()
	if id > int64(len(m.cycleList)) {
		return fmt.Errorf("cycle %d: %w", id, orchestrator.ErrNotFound)
	}
	if c := &m.cycleList[id-1]; c.Status == orchestrator.Queued {
		c.Status, c.Why, c.Finished = orchestrator.Cancelled, "It was cancelled before it began.", time.Now()
	} else if !c.Status.Ended() {
		c.CancelRequested = true
	}
	return nil
}

func (m *memory) Propose(_ context.Context, d ruleversions.Draft, force bool) (v ruleversions.Version, err error) {
	defer m.locked()()
	if m.pointer.Trial != 0 {
		return v, orchestrator.ErrTrial
	}
	if active := m.pointer.Accepted; active != 0 && !force && rules.Same(m.versionList[active-1].Rules, d.Rules) {
		return m.versionList[active-1], orchestrator.ErrSame
	}
	if d.Parent != m.pointer.Accepted {
		return v, fmt.Errorf("v%d: %w", d.Parent, orchestrator.ErrStale)
	}
	v = ruleversions.Version{
		Number: len(m.versionList) + 1, Parent: d.Parent, Origin: d.Origin, Author: d.Author, Rules: d.Rules,
		YAML: string(rules.Render(d.Rules)), Summary: d.Summary, Reasons: d.Reasons, Created: time.Now(),
	}
	m.versionList = append(m.versionList, v)
	m.moveLocked(v.Number, d.Author, d.Summary)
	return v, nil
}

func (m *memory) Activate(_ context.Context, n int, actor, reason string) error {
	defer m.locked()()
	if n > len(m.versionList) {
		return fmt.Errorf("v%d: %w", n, orchestrator.ErrNotFound)
	}
	if m.pointer.Trial != 0 {
		return orchestrator.ErrTrial
	}
	m.moveLocked(n, actor, reason)
	return nil
}

func (m *memory) moveLocked(n int, actor, reason string) {
	m.moves = append(m.moves, orchestrator.Activation{
		Move:     orchestrator.Move{Kind: orchestrator.MoveManual, Version: n, Actor: actor, Reason: reason},
		Previous: m.pointer.Accepted, Generation: m.pointer.Generation + 1, Requested: time.Now(),
	})
	m.pointer.Accepted, m.pointer.Desired = n, n
	m.pointer.Generation++
}

func (m *memory) Pointer(context.Context) (orchestrator.Pointer, error) {
	defer m.locked()()
	if m.pointer.Accepted == 0 {
		return m.pointer, orchestrator.ErrNotFound
	}
	return m.pointer, nil
}

func (m *memory) Version(_ context.Context, n int) (ruleversions.Version, error) {
	defer m.locked()()
	if n < 1 || n > len(m.versionList) {
		return ruleversions.Version{}, fmt.Errorf("v%d: %w", n, orchestrator.ErrNotFound)
	}
	return m.versionList[n-1], nil
}

func (m *memory) Versions(_ context.Context, limit, before int) (out []ruleversions.Version, _ error) {
	defer m.locked()()
	for _, v := range slices.Backward(m.versionList) {
		if (before == 0 || v.Number < before) && len(out) < limit {
			out = append(out, v)
		}
	}
	return out, nil
}

func (m *memory) Activations(_ context.Context, limit int, _ bool) ([]orchestrator.Activation, error) {
	defer m.locked()()
	out := slices.Clone(m.moves)
	slices.Reverse(out)
	return out[:min(limit, len(out))], nil
}

func (m *memory) Cycle(_ context.Context, id int64) (orchestrator.Cycle, error) {
	defer m.locked()()
	if id < 1 || id > int64(len(m.cycleList)) {
		return orchestrator.Cycle{}, fmt.Errorf("cycle %d: %w", id, orchestrator.ErrNotFound)
	}
	return m.cycleList[id-1], nil
}

func (m *memory) Cycles(_ context.Context, limit int, before int64) (out []orchestrator.Cycle, _ error) {
	defer m.locked()()
	for _, c := range slices.Backward(m.cycleList) {
		if (before == 0 || c.ID < before) && len(out) < limit {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) Steps(_ context.Context, cycle int64) ([]orchestrator.Step, error) {
	defer m.locked()()
	return slices.Clone(m.steps[cycle]), nil
}

func (m *memory) Live(_ context.Context, cycle int64) (orchestrator.Live, error) {
	defer m.locked()()
	l, ok := m.live[cycle]
	if !ok {
		return l, orchestrator.ErrNotFound
	}
	return l, nil
}

func (m *memory) Runs(_ context.Context, cycle int64) (out []orchestrator.Run, _ error) {
	defer m.locked()()
	for _, r := range m.runList {
		if r.CycleID == cycle {
			r.Result.Series, r.Result.Marks = nil, nil
			out = append(out, r)
		}
	}
	return out, nil
}

func (m *memory) Run(_ context.Context, id int64) (orchestrator.Run, error) {
	defer m.locked()()
	if id < 1 || id > int64(len(m.runList)) {
		return orchestrator.Run{}, fmt.Errorf("run %d: %w", id, orchestrator.ErrNotFound)
	}
	return m.runList[id-1], nil
}

func (m *memory) Proposals(_ context.Context, cycle int64) ([]orchestrator.Proposal, error) {
	defer m.locked()()
	return m.proposals[cycle], nil
}

// Spent sums up the calls of a cycle, or all of them.
func (m *memory) Spent(_ context.Context, cycle int64) (sum advisor.Spend, _ error) {
	defer m.locked()()
	for id, list := range m.calls {
		for _, c := range list {
			if cycle != 0 && id != cycle {
				continue
			}
			sum.Calls++
			sum.Tokens += int64(c.PromptTokens + c.CompletionTokens)
			if c.CostUSD == nil {
				sum.Unknown++
				continue
			}
			sum.USD += *c.CostUSD
			sum.MostUSD += *c.CostUSD
		}
	}
	return sum, nil
}

func (m *memory) Calls(_ context.Context, cycle int64) ([]advisor.Call, error) {
	defer m.locked()()
	return m.calls[cycle], nil
}

func (m *memory) Decisions(_ context.Context, cycle int64) ([]steering.Decision, error) {
	defer m.locked()()
	return slices.Clone(m.decisions[cycle]), nil
}

func (m *memory) Detections(_ context.Context, cycle int64) ([]orchestrator.RunDetection, error) {
	defer m.locked()()
	return m.detections[cycle], nil
}

func (m *memory) AllNoise(context.Context) ([]orchestrator.KnownNoise, error) {
	defer m.locked()()
	return m.noise, nil
}

func (m *memory) NoiseThen(_ context.Context, cycle int64) (orchestrator.KnownNoise, error) {
	defer m.locked()()
	for _, n := range m.noise {
		if c := m.cycleList[cycle-1]; n.Profile == c.Profile && n.Driver == c.Driver {
			return n, nil
		}
	}
	return orchestrator.KnownNoise{}, nil
}

func (m *memory) Schedules(context.Context) ([]orchestrator.Schedule, error) {
	defer m.locked()()
	return slices.Clone(m.plans), nil
}

func (m *memory) Schedule(_ context.Context, id int64) (orchestrator.Schedule, error) {
	defer m.locked()()
	i := m.planLocked(id)
	if i < 0 {
		return orchestrator.Schedule{}, fmt.Errorf("schedule %d: %w", id, orchestrator.ErrNotFound)
	}
	return m.plans[i], nil
}

func (m *memory) planLocked(id int64) int {
	return slices.IndexFunc(m.plans, func(s orchestrator.Schedule) bool { return s.ID == id })
}

func (m *memory) SaveSchedule(_ context.Context, s orchestrator.Schedule) (orchestrator.Schedule, error) {
	defer m.locked()()
	if i := m.planLocked(s.ID); i >= 0 {
		m.plans[i] = s
		return s, nil
	}
	s.ID, s.Created = 1, time.Now()
	for _, p := range m.plans {
		s.ID = max(s.ID, p.ID+1)
	}
	m.plans = append(m.plans, s)
	return s, nil
}

func (m *memory) DeleteSchedule(_ context.Context, id int64) error {
	defer m.locked()()
	i := m.planLocked(id)
	if i < 0 {
		return fmt.Errorf("schedule %d: %w", id, orchestrator.ErrNotFound)
	}
	m.plans = slices.Delete(m.plans, i, i+1)
	return nil
}

func (m *memory) RunNow(_ context.Context, id int64, actor string) (orchestrator.Cycle, error) {
	defer m.locked()()
	i := m.planLocked(id)
	if i < 0 {
		return orchestrator.Cycle{}, fmt.Errorf("schedule %d: %w", id, orchestrator.ErrNotFound)
	}
	s := m.plans[i]
	return m.enqueueLocked(orchestrator.Request{
		Kind: orchestrator.Tune, Trigger: "schedule", Actor: actor, Schedule: id, Target: "default",
		Profile: s.Profile, Generator: s.Generator, Driver: s.Driver,
	})
}
