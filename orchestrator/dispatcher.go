package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"retune/orchestrator/loadtest"
)

// Dispatcher claims queued cycles and runs them, one at a time; it starts due schedules, passes cancellations on, and ends
// the cycles of instances that are gone. It holds no logic of the cycle.
type Dispatcher struct {
	Queue     Queue
	Tuner     *Tuner
	Converger *Converger
	// After is called when a cycle has ended here and its end is stored; nil: nothing is.
	After func(context.Context, Cycle)
	Log   *slog.Logger

	mu      sync.Mutex
	running int64                   // guarded by mu; 0: none
	stop    context.CancelCauseFunc // guarded by mu: of the running cycle
}

// tick is the net below the queue's wake-ups.
const tick = 2 * time.Second

// Run dispatches until ctx ends, then waits for the running cycle to put the champion back.
func (d *Dispatcher) Run(ctx context.Context) error {
	var cycles sync.WaitGroup
	defer cycles.Wait()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		d.pass(ctx, &cycles)
		select {
		case <-ctx.Done():
			return nil
		case <-d.Queue.Wake():
		case <-t.C:
		}
	}
}

// passWithin bounds one pass: a database that hangs is no reason to hang with it.
const passWithin = 10 * time.Second

// pass does once what is to be done. An error is logged: the next pass tries again.
func (d *Dispatcher) pass(ctx context.Context, cycles *sync.WaitGroup) {
	bounded, stop := context.WithTimeout(ctx, passWithin)
	defer stop()
	warn := func(doing string, err error) {
		if err != nil && ctx.Err() == nil {
			d.Log.Warn(doing, "error", err)
		}
	}
	ended, err := d.Queue.Reclaim(bounded)
	warn("ending the cycles of instances that are gone", err)
	if len(ended) > 0 {
		warn("cleaning up after an instance that is gone", d.cleanUp(bounded, ended))
	}
	fired, err := d.Queue.FireDue(bounded, time.Now())
	warn("starting due schedules", err)
	for _, c := range fired {
		d.Log.Info("a schedule started a cycle", "schedule", c.Schedule, "cycle", c.ID)
	}
	if id := d.current(); id != 0 {
		asked, err := d.Queue.CancelRequested(bounded, id)
		switch {
		case errors.Is(err, ErrLost): // it ended here a moment ago, or was taken over
			d.cancel(id, ErrLost)
		case asked:
			d.cancel(id, ErrCancelled)
		default:
			warn("asking whether the cycle is cancelled", err)
		}
		return
	}
	warn("ending the measuring mode", d.Tuner.Normal(bounded))
	warn("claiming a cycle", d.claim(ctx, bounded, cycles))
}

// cleanUp puts the champion back in force after cycles that were reclaimed, ends their measuring mode, and revives what
// their scenarios may have failed.
func (d *Dispatcher) cleanUp(ctx context.Context, ended []Cycle) error {
	for _, c := range ended {
		d.Log.Warn("a cycle's process had ended; the champion is put back", "cycle", c.ID)
	}
	d.Tuner.measuring.Store(true)
	return errors.Join(d.Converger.Converge(ctx), d.Tuner.Normal(ctx), loadtest.Revive(ctx, d.Tuner.Site.Controls))
}

// claim takes a queued cycle, if there is one, and runs it on a goroutine of its own.
func (d *Dispatcher) claim(ctx, bounded context.Context, cycles *sync.WaitGroup) error {
	c, ok, err := d.Queue.Claim(bounded)
	if err != nil || !ok {
		return err
	}
	lost := d.Queue.Lost()
	run, stop := context.WithCancelCause(ctx)
	d.mu.Lock()
	d.running, d.stop = c.ID, stop
	d.mu.Unlock()
	cycles.Go(func() {
		select {
		case <-lost:
			stop(ErrLost)
		case <-run.Done():
		}
	})
	cycles.Go(func() {
		defer d.over()
		d.run(ctx, run, c)
	})
	return nil
}

// run takes a claimed cycle to its end.
func (d *Dispatcher) run(ctx, run context.Context, c Cycle) {
	log := d.Log.With("cycle", c.ID)
	log.Info("cycle started", "kind", c.Kind, "profile", c.Profile, "generator", c.Generator, "trigger", c.Trigger)
	c, err := d.Tuner.Run(run, c)
	for err != nil && !errors.Is(err, ErrLost) && pause(ctx, tick) {
		log.Error("the cycle's end could not be stored; trying again", "error", err)
		err = d.Tuner.Ledger.Save(ctx, c, c.Why)
	}
	if err != nil {
		log.Warn("the cycle is not ours any more; whoever ends it puts the champion back", "error", err)
		return
	}
	log.Info("cycle ended", "status", c.Status, "why", c.Why)
	if d.After != nil {
		d.After(ctx, c)
	}
}

func (d *Dispatcher) current() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running
}

func (d *Dispatcher) cancel(id int64, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == id {
		d.stop(cause)
	}
}

func (d *Dispatcher) over() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop(nil)
	d.running = 0
}
