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

	said map[string]string // what is wrong with each part of a pass; only Run uses it
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

// How long parts of a pass may take: a database that hangs is no reason to hang with it.
const (
	passWithin    = 10 * time.Second // each question to the queue
	cleanUpWithin = 8 * time.Second  // a target that does not answer is left to the Converger
	reclaimWithin = 2*passWithin + cleanUpWithin
)

// pass does once what is to be done. An error is logged: the next pass tries again.
func (d *Dispatcher) pass(ctx context.Context, cycles *sync.WaitGroup) {
	if id := d.current(); id != 0 { // nobody else's cycle can be open on our target
		d.try(ctx, "asking whether the cycle is cancelled", passWithin, func(ctx context.Context) error { return d.obey(ctx, id) })
	} else {
		d.try(ctx, "ending the cycles of instances that are gone", reclaimWithin, d.reclaim)
	}
	d.try(ctx, "starting due schedules", passWithin, d.fireDue)
	if d.current() != 0 {
		return
	}
	d.try(ctx, "ending the measuring mode", passWithin, d.Tuner.Normal)
	d.try(ctx, "claiming a cycle", passWithin, func(bounded context.Context) error { return d.claim(ctx, bounded, cycles) })
}

// try does one part of a pass. What is wrong is logged once, and again when it changes.
func (d *Dispatcher) try(ctx context.Context, doing string, within time.Duration, part func(context.Context) error) {
	bounded, stop := context.WithTimeout(ctx, within)
	defer stop()
	err := part(bounded)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != d.said[doing] && ctx.Err() == nil {
		d.Log.Warn(doing, "error", err)
	}
	if d.said == nil {
		d.said = map[string]string{}
	}
	d.said[doing] = said
}

// obey ends the running cycle's context when somebody asked for that, or when it is not ours any more.
func (d *Dispatcher) obey(ctx context.Context, id int64) error {
	asked, err := d.Queue.CancelRequested(ctx, id)
	switch {
	case errors.Is(err, ErrLost): // it ended here a moment ago, or was taken over
		d.cancel(id, ErrLost)
		return nil
	case asked:
		d.cancel(id, ErrCancelled)
	}
	return err
}

func (d *Dispatcher) fireDue(ctx context.Context) error {
	fired, err := d.Queue.FireDue(ctx, time.Now())
	for _, c := range fired {
		d.Log.Info("a schedule started a cycle", "schedule", c.Schedule, "cycle", c.ID)
	}
	return err
}

func (d *Dispatcher) reclaim(ctx context.Context) error {
	ended, err := d.Queue.Reclaim(ctx, d.cleanUp)
	for _, c := range ended {
		d.Log.Warn("a cycle without a process was ended", "cycle", c.ID, "status", c.Status, "why", c.Why)
	}
	return err
}

// cleanUp puts the champion back in force after cycles that are gone, ends their measuring mode, and revives what their
// scenarios may have failed. It tries for a while.
func (d *Dispatcher) cleanUp(ctx context.Context, gone []Cycle) error {
	for _, c := range gone {
		d.Log.Warn("a cycle's process is gone; putting the champion back", "cycle", c.ID)
	}
	d.Tuner.measuring.Store(true)
	ctx, stop := context.WithTimeout(ctx, cleanUpWithin)
	defer stop()
	for {
		err := errors.Join(d.Converger.Converge(ctx), d.Tuner.Normal(ctx), loadtest.Revive(ctx, d.Tuner.Site.Controls))
		if err == nil || !pause(ctx, time.Second) {
			return err
		}
	}
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
		err = attempt(ctx, passWithin, func(ctx context.Context) error { return d.Tuner.Ledger.Save(ctx, c, c.Why) })
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
