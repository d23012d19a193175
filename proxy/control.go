package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// control evaluates the traffic once per window and carries out what the governor decides. Everything that
// changes rules, mode or algorithm passes through it, one at a time.
type control struct {
	pool   *pool
	window *traffic.Window
	meters *meters
	log    *slog.Logger

	snapshots *steering.Ring[traffic.Snapshot]
	decisions *steering.Ring[steering.Decision]
	retimed   chan struct{} // the window's length or beginning has changed

	active atomic.Pointer[inForce] // read by anyone, stored under mu

	mu         sync.Mutex // guards what follows
	governor   *steering.Governor
	path       string     // of the rule file
	generation int64      // the highest that an orchestrator has set since the start …
	generated  rules.Hash // … and the rules that it set
}

// inForce is the rules in force with the bytes that they came from.
type inForce struct {
	rules.Active
	bytes []byte
}

func newControl(p *Proxy, w *traffic.Window, f *ruleFile) *control {
	c := &control{
		pool: p.pool, window: w, meters: p.meters, log: p.log, path: f.path,
		snapshots: steering.NewRing[traffic.Snapshot](steering.JournalSize),
		decisions: steering.NewRing[steering.Decision](steering.JournalSize),
		retimed:   make(chan struct{}, 1),
		governor:  steering.New(f.rules, p.boot),
	}
	c.active.Store(&inForce{rules.Active{
		Version: f.rules.Version, Hash: rules.Sum(f.bytes), BootID: p.boot, EffectiveAt: p.started.UTC(),
	}, f.bytes})
	c.pool.use(c.governor.Algorithm(), c.governor.Params())
	c.meters.steer(c.governor)
	return c
}

// run evaluates each window when it ends, until ctx is done. A change of the window starts it anew.
func (c *control) run(ctx context.Context) {
	timer := time.NewTimer(c.length())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.retimed:
		case <-timer.C:
			c.evaluate(time.Now())
		}
		timer.Reset(c.length())
	}
}

func (c *control) length() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.governor.Window()
}

// evaluate judges the window that ends now.
func (c *control) evaluate(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.window.Snapshot(balance.Now(), now.UTC(), c.pool.live())
	d := c.governor.Evaluate(now, s)
	c.snapshots.Append(d.Snapshot)
	c.carryOutLocked(d)
}

// carryOutLocked records a decision and puts its algorithm in force.
func (c *control) carryOutLocked(d steering.Decision) {
	c.decisions.Append(d)
	c.pool.use(c.governor.Algorithm(), c.governor.Params())
	c.meters.decided(d)
	c.meters.steer(c.governor)
	if d.Switched {
		c.log.Info("switched", "from", d.PreviousAlgorithm, "to", d.Algorithm, "state", d.State, "cause", d.Cause, "reason", d.Reason)
	}
}

// leastScale keeps windows long enough for a loop to follow: at least 10 ms.
const leastScale = 0.01

// setMode sets adaptive or fixed mode, resets for a measurement, scales time. A generation lower than the last that an
// orchestrator has set is refused: whoever sends it has been replaced. 0: by hand.
func (c *control) setMode(m steering.Mode, generation int64, now time.Time) (steering.Mode, error) {
	if m.TimeScale > 0 && m.TimeScale < leastScale {
		return steering.Mode{}, fmt.Errorf("time_scale: %v is below %v", m.TimeScale, leastScale)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != 0 && generation < c.generation {
		return steering.Mode{}, errGeneration
	}
	d, err := c.governor.SetMode(now, m)
	if err != nil {
		return steering.Mode{}, err
	}
	if m.Reset {
		c.window.Reset(balance.Now())
		c.pool.forget(now)
	}
	c.resizeLocked()
	c.carryOutLocked(d)
	return c.governor.Mode(), nil
}

// resizeLocked brings the window in line with the governor's, and the loop with the window.
func (c *control) resizeLocked() {
	c.window.Resize(balance.Now(), c.governor.Window(), c.governor.Rules().Detection.LatencySlopeWindows)
	select {
	case c.retimed <- struct{}{}:
	default:
	}
}

// What a reload may be refused for.
var (
	errStale        = errors.New("other rules are in force than If-Match names")
	errGeneration   = errors.New("a higher Retune-Generation, or the same with other rules, was set already")
	errTrialBody    = errors.New("Retune-Trial needs the rules in the request's body")
	errRulesStorage = errors.New("the rule file could not be replaced; the rules in force stay")
)

// reload is one request to change the rules.
type reload struct {
	body       []byte     // YAML; empty: read the file anew
	match      rules.Hash // the rules that have to be in force; "": any
	generation int64      // the orchestrator's; 0: by hand
	trial      bool       // in memory alone: a restart runs the file's rules again
}

// reload validates new rules, stores them and swaps them in, in this order: what fails changes nothing. The
// state that holds is mapped anew at once; history, health and every algorithm's state stay.
func (c *control) reload(r reload, now time.Time) (rules.Active, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.match != "" && r.match != c.active.Load().Hash {
		return rules.Active{}, errStale
	}
	if r.trial && len(r.body) == 0 {
		return rules.Active{}, errTrialBody
	}
	b, rs, err := c.loadLocked(r)
	if err != nil {
		return rules.Active{}, err
	}
	hash := rules.Sum(b)
	if r.generation != 0 && (r.generation < c.generation || r.generation == c.generation && hash != c.generated) {
		return rules.Active{}, errGeneration
	}
	if len(r.body) > 0 && !r.trial {
		if err := c.replaceFile(b); err != nil {
			return rules.Active{}, errors.Join(errRulesStorage, err)
		}
	}
	if r.generation != 0 {
		c.generation, c.generated = r.generation, hash
	}
	return c.swapLocked(r, b, rs, now), nil
}

func (c *control) loadLocked(r reload) ([]byte, rules.RuleSet, error) {
	if len(r.body) == 0 {
		return readRules(c.path)
	}
	rs, err := rules.Parse("request body", r.body)
	return r.body, rs, err
}

func (c *control) swapLocked(r reload, b []byte, rs rules.RuleSet, now time.Time) rules.Active {
	before := c.governor.Window()
	d := c.governor.Reload(now, rs)
	if c.governor.Window() != before {
		c.resizeLocked()
	} else {
		c.window.Resize(balance.Now(), before, rs.Detection.LatencySlopeWindows)
	}
	next := &inForce{rules.Active{
		Version: rs.Version, Hash: rules.Sum(b), Generation: r.generation, Trial: r.trial,
		BootID: c.active.Load().BootID, EffectiveAt: now.UTC(),
	}, b}
	c.active.Store(next)
	c.carryOutLocked(d)
	c.log.Info("rules in force", "version", next.Version, "sha256", next.Hash, "generation", next.Generation, "trial", next.Trial)
	return next.Active
}
