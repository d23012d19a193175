package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
	"retune/orchestrator/verdict"
)

func TestEnqueueKeepsTheRequestAndRefusesASecond(t *testing.T) {
	s, _, dsn := seeded(t)
	r := request()
	r.Scenarios, r.Proposal, r.Force, r.Generator = []string{"burst", "steady"}, "version: 2", true, "file"
	r.Limits = verdict.Limits{P95Increase: 0.2, RPSDecrease: 0.1, ErrorIncrease: 0.01}
	c, err := s.Enqueue(t.Context(), r)
	require.NoError(t, err)
	r.Target = "proxy"
	require.Empty(t, cmp.Diff(r, c.Request))
	require.Equal(t, orchestrator.Queued, c.Status)

	busy, err := open(t, dsn).Enqueue(t.Context(), request())
	require.ErrorIs(t, err, orchestrator.ErrBusy)
	require.Equal(t, c.ID, busy.ID)
	elsewhere := request()
	elsewhere.Target = "elsewhere"
	_, err = s.Enqueue(t.Context(), elsewhere)
	require.NoError(t, err, "another target is another queue")
}

func TestEnqueueFillsInDefaults(t *testing.T) {
	s, _, _ := seeded(t)
	c, err := s.Enqueue(t.Context(), orchestrator.Request{Kind: orchestrator.Tune, Trigger: "web", Profile: loadtest.Quick})
	require.NoError(t, err)
	require.Equal(t, []any{"proxy", loadtest.Auto, "local", verdict.DefaultLimits()}, []any{c.Target, c.Driver, c.Generator, c.Limits})
}

func TestEnqueueSaysAllThatIsWrong(t *testing.T) {
	s, _, _ := seeded(t)
	_, err := s.Enqueue(t.Context(), orchestrator.Request{Kind: "dance", Trigger: "cli", Profile: "weekly", Driver: "jmeter"})
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
	for _, what := range []string{`kind "dance"`, `profile "weekly"`, `driver "jmeter"`} {
		require.ErrorContains(t, err, what)
	}
	for name, change := range map[string]func(*orchestrator.Request){
		"a proposal is missing": func(r *orchestrator.Request) { r.Generator = "file" },
		"an unknown generator":  func(r *orchestrator.Request) { r.Generator = "oracle" },
		"a negative limit":      func(r *orchestrator.Request) { r.Limits.P95Increase = -1 },
	} {
		r := request()
		change(&r)
		_, err := s.Enqueue(t.Context(), r)
		require.ErrorIs(t, err, orchestrator.ErrInvalid, name)
	}
	r := request()
	r.Limits.P95Increase = 0.2
	_, err = s.Enqueue(t.Context(), r)
	require.ErrorIs(t, err, orchestrator.ErrInvalid, "limits that are given in part")
	require.ErrorContains(t, err, "rps_decrease: 0")
	require.ErrorContains(t, err, "error_increase: 0")
	require.NotContains(t, err.Error(), "p95_increase")
	list, err := s.Cycles(t.Context(), 10, 0)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestThreeInstancesClaimEachCycleOnce(t *testing.T) {
	s, conn, dsn := seeded(t)
	const targets, each = 4, 5
	for i := range targets * each { // past Enqueue, as schedules queue
		_, err := conn.Exec(t.Context(), `INSERT INTO cycle (kind, trigger, target, profile, generator, driver, limits)
			VALUES ('tune', 'schedule', $1, 'quick', 'local', 'auto', '{}')`, fmt.Sprint("target-", i%targets))
		require.NoError(t, err)
	}
	var mu sync.Mutex
	claimed, loaded := map[int64]bool{}, map[string]bool{}
	work := func(s *postgres.Store) {
		for {
			c, ok, err := s.Claim(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			done := len(claimed) == targets*each
			if ok && (claimed[c.ID] || loaded[c.Target]) {
				t.Errorf("cycle %d on %s was claimed while it should not have been", c.ID, c.Target)
			}
			if ok {
				claimed[c.ID], loaded[c.Target] = true, true
			}
			mu.Unlock()
			if done {
				return
			}
			if !ok {
				continue
			}
			mu.Lock()
			loaded[c.Target] = false
			mu.Unlock()
			c.Status = orchestrator.Finished
			if err := s.Save(t.Context(), c, "done"); err != nil {
				t.Error(err)
			}
		}
	}
	var wg sync.WaitGroup
	for _, instance := range []*postgres.Store{s, open(t, dsn), open(t, dsn)} {
		wg.Go(func() { work(instance) })
	}
	wg.Wait()
	require.Len(t, claimed, targets*each)
}

// Two that claim at the same instant both see a free target: the index decides.
func TestAClaimThatComesSecondIsNoError(t *testing.T) {
	s, conn, _ := seeded(t)
	for range 2 {
		_, err := conn.Exec(t.Context(), `INSERT INTO cycle (kind, trigger, target, profile, generator, driver, limits)
			VALUES ('tune', 'schedule', 'proxy', 'quick', 'local', 'auto', '{}')`)
		require.NoError(t, err)
	}
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE cycle SET status = 'baseline', owner = 77, started_at = now() WHERE id = (SELECT min(id) FROM cycle)")
	require.NoError(t, err)
	type answer struct {
		ok  bool
		err error
	}
	second := make(chan answer)
	go func() {
		_, ok, err := s.Claim(t.Context())
		second <- answer{ok, err}
	}()
	// It waits for the index entry of the first.
	probe := connect(t, conn.Config().ConnString())
	require.Eventually(t, func() bool {
		var waits bool
		err := probe.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())").Scan(&waits)
		return err == nil && waits
	}, patience, 5*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, answer{false, nil}, <-second)
}

func TestSaveKeepsTheCycleAndItsTimeline(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	require.Equal(t, orchestrator.Baseline, c.Status)
	require.False(t, c.Started.IsZero())
	_, err := s.Append(t.Context(), draft(1, c.ID))
	require.NoError(t, err)

	require.NoError(t, s.Save(t.Context(), c, "steady under v1"))
	c.Status, c.Champion, c.Candidate, c.Driver, c.Scenarios = orchestrator.Verifying, 1, 2, loadtest.K6, []string{"burst"}
	c.Evidence = []byte(`{"profile": "quick\u0000"}`)
	require.NoError(t, s.Save(t.Context(), c, "pair 1"))
	require.NoError(t, s.Save(t.Context(), c, "pair 2"))
	require.NoError(t, s.Save(t.Context(), c, ""))
	c.Status, c.Why = orchestrator.Inconclusive, "3 more pairs would decide"
	c.Verdict = &verdict.Verdict{Outcome: verdict.Inconclusive, Reason: c.Why, Pairs: 4, Limits: verdict.DefaultLimits(),
		Findings: []verdict.Finding{{Scenario: "burst", Metric: verdict.P95, Champion: 80, Candidate: 88, Effect: 0.1, Low: -0.05, High: 0.27, Limit: 0.15, Outcome: verdict.Undecided, Pairs: 4}}}
	require.NoError(t, s.Save(t.Context(), c, c.Why))

	got, err := s.Cycle(t.Context(), c.ID)
	require.NoError(t, err)
	require.False(t, got.Finished.IsZero())
	c.Finished = got.Finished
	c.Evidence = []byte("{\"profile\": \"quick\uFFFD\"}") // as far as Postgres can store it
	require.Empty(t, cmp.Diff(c, got))

	steps, err := s.Steps(t.Context(), c.ID)
	require.NoError(t, err)
	var line []string
	for i, step := range steps {
		require.Equal(t, i+1, step.Seq)
		require.False(t, step.Finished.IsZero(), "every step of an ended cycle is closed")
		line = append(line, fmt.Sprintf("%s: %s", step.Name, step.Detail))
	}
	require.Equal(t, []string{"queued: ", "baseline: steady under v1", "verifying: pair 2", "inconclusive: 3 more pairs would decide"}, line)

	require.ErrorIs(t, s.Save(t.Context(), c, "once more"), orchestrator.ErrLost, "what has ended stays as it is")
}

func TestAnInstanceThatLostItsSessionIsFencedOff(t *testing.T) {
	s, conn, dsn := seeded(t)
	c, _ := onTrial(t, s)
	heir := open(t, dsn)
	none, err := heir.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Empty(t, none, "its owner lives")

	killSession(t, conn, c.Owner)
	ended, err := heir.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, orchestrator.Interrupted, ended[0].Status)
	require.Equal(t, "its process ended during the trial; v1 was put back in force", ended[0].Why)

	require.ErrorIs(t, s.Save(t.Context(), c, "still here"), orchestrator.ErrLost)
	_, err = s.CancelRequested(t.Context(), c.ID)
	require.ErrorIs(t, err, orchestrator.ErrLost)
	steps, err := heir.Steps(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Interrupted, steps[len(steps)-1].Name)

	_, err = heir.Enqueue(t.Context(), request())
	require.NoError(t, err, "the target is free again")
	_, ok, err := heir.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
}

func TestClosingAnInstanceFreesItsCycles(t *testing.T) {
	_, _, dsn := seeded(t)
	leaving, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	require.NoError(t, err)
	c := running(t, leaving)
	leaving.Close()
	heir := open(t, dsn)
	require.Eventually(t, func() bool { // the server notices a closed socket by itself
		ended, err := heir.Reclaim(t.Context(), clean)
		return err == nil && len(ended) == 1 && ended[0].ID == c.ID
	}, patience, 10*time.Millisecond)
}

// listening is an instance with its loop, which ends before the instance is closed.
func listening(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	s := open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Listen(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestALostSessionIsToldAndOpenedAgainUnderAnotherNumber(t *testing.T) {
	_, conn, dsn := seeded(t)
	s := listening(t, dsn)
	c := running(t, s)
	lost := s.Lost()
	killSession(t, conn, c.Owner)
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("the loss was not told")
	}
	require.Eventually(t, func() bool { // claiming needs a session
		_, _, err := s.Claim(t.Context())
		return err == nil
	}, patience, 10*time.Millisecond)
	_, err := s.CancelRequested(t.Context(), c.ID)
	require.ErrorIs(t, err, orchestrator.ErrLost, "a new number does not own what the old one did")
	ended, err := s.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Len(t, ended, 1, "an instance reclaims its own former cycle too")
	select {
	case <-s.Lost():
		t.Fatal("the new session is not lost")
	default:
	}
	again := running(t, s)
	require.NotEqual(t, c.Owner, again.Owner)
}

func TestQueueingCancellingAndEndingWake(t *testing.T) {
	s, conn, _ := seeded(t)
	_, err := conn.Exec(t.Context(), "LISTEN retune")
	require.NoError(t, err)
	woken := func(what string) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		_, err := conn.WaitForNotification(ctx)
		require.NoError(t, err, what)
	}
	_, err = s.Enqueue(t.Context(), request())
	require.NoError(t, err)
	woken("queueing")
	c, _, err := s.Claim(t.Context())
	require.NoError(t, err)
	woken("claiming")
	require.NoError(t, s.Cancel(t.Context(), c.ID, "ada"))
	woken("cancelling")
	end(t, s, c, orchestrator.Cancelled)
	woken("ending")
}

func TestWakeIsSignalled(t *testing.T) {
	_, _, dsn := seeded(t)
	s := listening(t, dsn)
	for range 2 { // the tick alone keeps signalling
		select {
		case <-s.Wake():
		case <-time.After(patience):
			t.Fatal("no signal")
		}
	}
}

func TestCancel(t *testing.T) {
	s, _, _ := seeded(t)
	queued, err := s.Enqueue(t.Context(), request())
	require.NoError(t, err)
	require.NoError(t, s.Cancel(t.Context(), queued.ID, "ada"))
	got, err := s.Cycle(t.Context(), queued.ID)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Cancelled, got.Status, "what has not begun ends at once")
	require.Equal(t, "cancelled by ada before it began", got.Why)
	require.ErrorIs(t, s.Cancel(t.Context(), queued.ID, "ada"), orchestrator.ErrInvalid)
	require.ErrorIs(t, s.Cancel(t.Context(), 99, "ada"), orchestrator.ErrNotFound)

	c := running(t, s)
	asked, err := s.CancelRequested(t.Context(), c.ID)
	require.NoError(t, err)
	require.False(t, asked)
	require.NoError(t, s.Cancel(t.Context(), c.ID, "ada"))
	asked, err = s.CancelRequested(t.Context(), c.ID)
	require.NoError(t, err)
	require.True(t, asked)
	got, err = s.Cycle(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Baseline, got.Status, "what runs is ended by who runs it")
	end(t, s, c, orchestrator.Cancelled)
}

func TestLiveHoldsTheLatestAlone(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	_, err := s.Live(t.Context(), c.ID)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
	l := orchestrator.Live{CycleID: c.ID, Status: orchestrator.Verifying, Detail: "pair 1", Share: 0.5, Remaining: time.Minute,
		Load: loadtest.Progress{Scenario: "burst", RPS: 80}, Arm: orchestrator.ArmCandidate, At: time.Now().UTC().Round(time.Microsecond)}
	require.NoError(t, s.SaveLive(t.Context(), l))
	l.Detail = "pair 2"
	require.NoError(t, s.SaveLive(t.Context(), l))
	got, err := s.Live(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, l, got)
}

func TestCyclesAreListedNewestFirst(t *testing.T) {
	s, _, _ := seeded(t)
	var ids []int64
	for range 3 {
		c := running(t, s)
		end(t, s, c, orchestrator.Failed)
		ids = append(ids, c.ID)
	}
	list, err := s.Cycles(t.Context(), 2, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{ids[2], ids[1]}, []int64{list[0].ID, list[1].ID})
	list, err = s.Cycles(t.Context(), 10, ids[1])
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, ids[0], list[0].ID)
	_, err = s.Cycle(t.Context(), 99)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
}

func TestReclaimCleansUpWhileTheTargetIsTaken(t *testing.T) {
	s, conn, dsn := seeded(t)
	c, _ := onTrial(t, s)
	killSession(t, conn, c.Owner)
	heir, third := open(t, dsn), open(t, dsn)
	_, err := conn.Exec(t.Context(), `INSERT INTO cycle (kind, trigger, target, profile, generator, driver, limits)
		VALUES ('tune', 'schedule', 'proxy', 'quick', 'local', 'auto', '{}')`)
	require.NoError(t, err)
	called := 0
	ended, err := heir.Reclaim(t.Context(), func(ctx context.Context, gone []orchestrator.Cycle) error {
		called++
		require.Equal(t, c.ID, gone[0].ID)
		p, err := heir.Pointer(ctx)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1, 0}, []int64{int64(p.Accepted), int64(p.Desired), p.Trial}, "the champion is desired")
		_, claimed, err := third.Claim(ctx)
		require.NoError(t, err)
		require.False(t, claimed, "nothing runs before the target is clean")
		again, err := third.Reclaim(ctx, clean)
		require.NoError(t, err)
		require.Empty(t, again, "its owner is the heir, which lives")
		require.ErrorIs(t, s.Save(ctx, c, "still here"), orchestrator.ErrLost)
		return errors.New("proxy out of reach")
	})
	require.NoError(t, err)
	require.Equal(t, 1, called)
	require.Equal(t, "its process ended during the trial; v1 was put back in force; the target has not confirmed it yet: proxy out of reach", ended[0].Why)
	_, claimed, err := third.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, claimed)
}

// An heir that dies while it cleans up leaves the cycle to the next, which cleans up again.
func TestAReclaimThatDiesIsMadeAgain(t *testing.T) {
	s, conn, dsn := seeded(t)
	c, _ := onTrial(t, s)
	killSession(t, conn, c.Owner)
	heir := open(t, dsn)
	_, err := heir.Reclaim(t.Context(), func(ctx context.Context, gone []orchestrator.Cycle) error {
		killSession(t, conn, gone[0].Owner)
		heir.Close() // it dies
		return nil
	})
	require.Error(t, err)
	called := 0
	ended, err := open(t, dsn).Reclaim(t.Context(), func(context.Context, []orchestrator.Cycle) error { called++; return nil })
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, 1, called)
	require.Equal(t, "its process ended during the trial; v1 was put back in force", ended[0].Why, "as the first heir saw it")
}

func TestAReclaimThatCouldNotBeRecordedIsMadeAgain(t *testing.T) {
	s, conn, dsn := seeded(t)
	c, _ := onTrial(t, s)
	killSession(t, conn, c.Owner)
	heir := open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	_, err := heir.Reclaim(ctx, func(context.Context, []orchestrator.Cycle) error { stop(); return nil })
	require.Error(t, err)
	ended, err := heir.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, orchestrator.Interrupted, ended[0].Status)
	none, err := heir.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestACycleThatWasToBeCancelledEndsAsCancelled(t *testing.T) {
	s, conn, dsn := seeded(t)
	c, _ := onTrial(t, s)
	require.NoError(t, s.Cancel(t.Context(), c.ID, "ada"))
	killSession(t, conn, c.Owner)
	ended, err := open(t, dsn).Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Cancelled, ended[0].Status)
	require.Equal(t, "cancelled; its process ended during the trial; v1 was put back in force", ended[0].Why)
}

// What a gone instance may still send the proxies is older than the pointer, also when it had no trial.
func TestReclaimTakesANewGeneration(t *testing.T) {
	s, conn, dsn := seeded(t)
	c := running(t, s)
	before := pointer(t, s)
	killSession(t, conn, c.Owner)
	_, err := open(t, dsn).Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Greater(t, pointer(t, s).generation, before.generation)
}

// A process that is stopped keeps its connection and its lock, and says nothing.
func TestTheSessionOfASilentInstanceIsEnded(t *testing.T) {
	s, conn, dsn := seeded(t) // nobody listens for it, so it says nothing
	c := running(t, s)
	heir := listening(t, dsn)
	alive := listening(t, dsn)
	_, err := conn.Exec(t.Context(), `INSERT INTO cycle (kind, trigger, target, profile, generator, driver, limits)
		VALUES ('tune', 'cli', 'elsewhere', 'quick', 'local', 'auto', '{}')`)
	require.NoError(t, err)
	other, claimed, err := alive.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, claimed)
	require.Eventually(t, func() bool {
		ended, err := heir.Reclaim(t.Context(), clean)
		return err == nil && len(ended) == 1 && ended[0].ID == c.ID
	}, postgres.Silence+patience, 100*time.Millisecond)
	_, err = alive.CancelRequested(t.Context(), other.ID)
	require.NoError(t, err, "one that speaks keeps its cycle")
}

// The answer to a claim may be lost after it was committed: whoever owns the cycle then does not know it.
func TestACycleThatItsOwnerDoesNotKnowOfIsEnded(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	ended, err := s.Reclaim(t.Context(), clean)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, c.ID, ended[0].ID)
	require.Equal(t, "it never began, since Postgres took too long to hand it over; v1 stays in force", ended[0].Why)
}
