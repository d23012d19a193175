package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"retune/proxy/rules"
	"retune/ruleversions"
)

// patience is how long one call of the ledger or the target may take while a trial is being undone.
const patience = 3 * time.Second

// attempt gives one call a bounded time of its own.
func attempt(ctx context.Context, within time.Duration, call func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	return call(ctx)
}

// errNotRestored is the loudest of failures: a trial is over and its candidate may still be in force.
var errNotRestored = errors.New("ROLLBACK FAILED")

// restoreFor is how long restoring the champion is tried before the built-in safe rules are.
const restoreFor = 30 * time.Second

// stopFor is the same while the process is told to stop: what it could not record, the next start does.
const stopFor = 6 * time.Second

// lasting is a context for what has to be done after ctx has ended, and how long that may take.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	within := restoreFor
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ErrCancelled) && !errors.Is(cause, ErrLost) {
		within = stopFor
	}
	return context.WithTimeout(context.WithoutCancel(ctx), within)
}

// restore puts the champion back and reads its hash from the target, also after ctx has ended. cause is what ended the
// trial, if not a verdict.
func (u *turn) restore(ctx context.Context, cause error) error {
	bounded, stop := lasting(ctx)
	defer stop()
	if errors.Is(context.Cause(ctx), ErrLost) {
		return u.yield(bounded)
	}
	err := u.recordRollback(bounded, u.rollback(cause))
	if err == nil {
		err = u.converge(bounded)
	}
	if err == nil || errors.Is(err, ErrLost) { // lost: whoever took the cycle over puts the champion back
		return err
	}
	ctx = context.WithoutCancel(ctx)
	u.Log.Error("ROLLBACK FAILED", "cycle", u.c.ID, "champion", u.champion.Number, "error", err)
	return fmt.Errorf("%w: v%d: %w; %s", errNotRestored, u.champion.Number, err, u.fallBack(ctx))
}

// yield puts the champion back for a cycle that is not ours any more. It does not wait for the ledger, which may not answer
// for long: whoever takes the cycle over records it.
func (u *turn) yield(ctx context.Context) error {
	for {
		err := u.putBack(ctx)
		if err == nil || !pause(ctx, time.Second) {
			return errors.Join(ErrLost, err)
		}
	}
}

// rollback is the move that ends the trial, with why.
func (u *turn) rollback(cause error) Move {
	m := Move{Kind: MoveRollback, Version: u.champion.Number, Cycle: u.c.ID, Actor: "orchestrator", Reason: "the trial ended without a verdict"}
	switch {
	case cause != nil:
		m.Reason = cause.Error()
	case u.c.Verdict != nil:
		m.Reason = u.c.Verdict.Reason
	case u.c.Candidate == 0:
		m.Reason = "the screening is over"
	}
	return m
}

// recordRollback moves the pointer back, trying until ctx ends, with more patience each time. While the ledger is out
// of reach the champion goes back without it.
func (u *turn) recordRollback(ctx context.Context, back Move) error {
	within := patience
	for wait := 200 * time.Millisecond; ; wait, within = min(2*wait, 3*time.Second), 2*within {
		err := attempt(ctx, within, func(ctx context.Context) error {
			_, err := u.Ledger.Move(ctx, back)
			return err
		})
		if err == nil || errors.Is(err, ErrLost) {
			return err
		}
		err = errors.Join(err, u.putBack(context.WithoutCancel(ctx)))
		if !pause(ctx, wait) {
			return err
		}
	}
}

// putBack applies the champion by hand.
func (u *turn) putBack(ctx context.Context) error {
	_, err := u.overCandidate(ctx, u.champion)
	return err
}

// overCandidate applies a version by hand, in memory: the proxies' files hold the champion anyway. It leaves a target alone
// that runs something other than a candidate of ours on trial: this process may have been frozen, and replaced. found is what was left
// alone; nil: nothing was.
func (u *turn) overCandidate(ctx context.Context, v ruleversions.Version) (found *rules.Active, err error) {
	err = attempt(ctx, patience, func(ctx context.Context) error {
		if now, err := u.Target.Serving(ctx); err == nil && (!now.Trial || !u.ours(now.Hash)) {
			found = &now
			return nil
		}
		return u.Target.Apply(ctx, v, 0, true)
	})
	return found, err
}

// fallBack is for when the champion could not be put back in order: the champion by hand, else the built-in safe rules. It
// says what is in force. The Converger goes on trying.
func (u *turn) fallBack(ctx context.Context) string {
	if found, err := u.overCandidate(ctx, u.champion); err == nil {
		return u.untilThen(found, fmt.Sprintf("v%d is in force in the proxies' memory", u.champion.Number))
	}
	yaml := rules.Render(rules.Safe())
	safe := ruleversions.Version{YAML: string(yaml), Hash: rules.Sum(yaml), Rules: rules.Safe()}
	found, err := u.overCandidate(ctx, safe)
	if err != nil {
		return fmt.Sprintf("the built-in safe rules could not be applied either: %v", err)
	}
	return u.untilThen(found, "the built-in safe rules are in force")
}

// untilThen says what is in force until the champion can be put back in order: what was applied, or was found and left alone.
func (u *turn) untilThen(found *rules.Active, applied string) string {
	switch {
	case found == nil:
		return applied + " until it can be"
	case found.Hash == u.champion.Hash:
		return fmt.Sprintf("v%d is what the proxies run", u.champion.Number)
	}
	return fmt.Sprintf("the proxies run rules that are not this cycle's (sha256 %.12s), which were left alone", found.Hash)
}

// pause waits; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// converge tries until the target is on the desired version and says so by its hash, or ctx ends.
func (u *turn) converge(ctx context.Context) error {
	if err := persist(ctx, u.Converger.Converge); err != nil {
		return err
	}
	return u.confirm(ctx)
}

// persist makes a call until it succeeds or ctx ends: then the error is what went wrong before that.
func persist(ctx context.Context, call func(context.Context) error) (wrong error) {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 3*time.Second) {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if wrong == nil || ctx.Err() == nil {
			wrong = err
		}
		if !pause(ctx, wait) {
			return wrong
		}
	}
}

// confirm reads the hash back from the target.
func (u *turn) confirm(ctx context.Context) error {
	p, err := u.Ledger.Pointer(ctx)
	if err != nil {
		return err
	}
	now, err := u.Target.Serving(ctx)
	if err != nil {
		return err
	}
	if now.Hash != p.Hash {
		return fmt.Errorf("the target runs sha256 %.12s, not v%d's %.12s", now.Hash, p.Desired, p.Hash)
	}
	return nil
}
