package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// convergeEvery is how often the target is compared with the pointer.
const convergeEvery = 5 * time.Second

// convergeWithin bounds one convergence: all proxies, one after the other.
const convergeWithin = 15 * time.Second

// Converger keeps the target on the desired version: after each move of the pointer, at start, and every few seconds.
type Converger struct {
	Target Target
	Ledger Ledger
	Log    *slog.Logger

	mu    sync.Mutex            // one convergence at a time
	fault atomic.Pointer[error] // why the last one failed; nil: the target is in line
}

// Run converges until ctx ends. A target that is down is tried again; what is wrong is logged once, and again when it changes.
func (c *Converger) Run(ctx context.Context) error {
	tick := time.NewTicker(convergeEvery)
	defer tick.Stop()
	for {
		before := c.Fault()
		err := c.outsideTrials(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (before == nil || before.Error() != err.Error()):
			c.Log.Warn("the target is not on the desired rules; trying again", "every", convergeEvery, "error", err)
		case err == nil && before != nil:
			c.Log.Info("the target is on the desired rules again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Fault is why the target is not on the desired version; nil when it is.
func (c *Converger) Fault() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// outsideTrials converges unless a trial is on: then only its cycle moves the target, a proxy that was touched voids it,
// and what a dead cycle left on trial is not put in force again.
func (c *Converger) outsideTrials(ctx context.Context) error {
	p, err := c.Ledger.Pointer(ctx)
	if err == nil && p.Trial != 0 {
		return c.Fault()
	}
	if err == nil && p.Applied == p.Desired && p.AppliedGen == p.Generation {
		c.tellTouched(ctx, p)
	}
	return c.Converge(ctx)
}

// tellTouched warns whoever changed rules behind Retune's back that they are put right.
func (c *Converger) tellTouched(ctx context.Context, p Pointer) {
	now, err := c.Target.Serving(ctx)
	if err != nil || now.Hash == p.Hash {
		return
	}
	if again, err := c.Ledger.Pointer(ctx); err != nil || again.Generation != p.Generation {
		return // it was moved meanwhile, through Retune
	}
	c.Log.Warn("the proxy runs rules that were not put in force through Retune; the active version goes back. To change rules: retune rules apply FILE",
		"found", now.Version, "sha256", now.Hash, "active", p.Desired)
}

// Converge brings the target to the desired version and records that it did. Idempotent; nil before the first version.
func (c *Converger) Converge(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, convergeWithin)
	defer stop()
	err := c.converge(ctx)
	if err == nil {
		c.fault.Store(nil)
	} else {
		c.fault.Store(&err)
	}
	return err
}

func (c *Converger) converge(ctx context.Context) error {
	p, err := c.Ledger.Pointer(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which version is in force: %w", err)
	}
	if p.Proposal != 0 { // a screening: its cycle alone moves the target
		return nil
	}
	v, err := c.Ledger.Version(ctx, p.Desired)
	if err != nil {
		return fmt.Errorf("reading v%d: %w", p.Desired, err)
	}
	if err := c.Target.Apply(ctx, v, p.Generation, p.Desired != p.Accepted); err != nil {
		if now, look := c.Ledger.Pointer(ctx); look == nil && now.Generation != p.Generation {
			return nil // another instance has moved on meanwhile: what was refused is not desired any more
		}
		return err
	}
	if p.Applied == p.Desired && p.AppliedGen == p.Generation {
		return nil
	}
	return c.Ledger.Applied(ctx, p.Desired, p.Generation)
}
