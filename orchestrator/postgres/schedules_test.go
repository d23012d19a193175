package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres"
)

func nightly() orchestrator.Schedule {
	return orchestrator.Schedule{Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Profile: loadtest.Nightly, Enabled: true}
}

func saved(t *testing.T, s *postgres.Store, sc orchestrator.Schedule) orchestrator.Schedule {
	t.Helper()
	sc, err := s.SaveSchedule(t.Context(), sc)
	require.NoError(t, err)
	return sc
}

func TestAScheduleIsSavedChangedPausedAndDeleted(t *testing.T) {
	s, _, _ := seeded(t)
	sc := saved(t, s, nightly())
	require.Equal(t, []any{"run_once", loadtest.Auto, "local"}, []any{sc.Missed, sc.Driver, sc.Generator}, "defaults")
	next, err := orchestrator.Next(sc.Cron, sc.Zone, time.Now())
	require.NoError(t, err)
	require.WithinDuration(t, next, sc.NextRun, 24*time.Hour) // a day later when the test runs just then
	got, err := s.Schedule(t.Context(), sc.ID)
	require.NoError(t, err)
	require.Equal(t, sc, got)

	sc.Enabled = false
	paused := saved(t, s, sc)
	require.True(t, paused.NextRun.IsZero())
	fired, err := s.FireDue(t.Context(), time.Now().AddDate(1, 0, 0))
	require.NoError(t, err)
	require.Empty(t, fired)

	c, err := s.RunNow(t.Context(), sc.ID, "ada")
	require.NoError(t, err)
	require.NoError(t, s.DeleteSchedule(t.Context(), sc.ID))
	require.ErrorIs(t, s.DeleteSchedule(t.Context(), sc.ID), orchestrator.ErrNotFound)
	_, err = s.SaveSchedule(t.Context(), sc)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
	kept, err := s.Cycle(t.Context(), c.ID)
	require.NoError(t, err, "its cycles stay")
	require.Zero(t, kept.Schedule)
}

func TestAWrongScheduleSaysAllThatIsWrong(t *testing.T) {
	s, _, _ := seeded(t)
	_, err := s.SaveSchedule(t.Context(), orchestrator.Schedule{Cron: "TZ=0 2 * * *", Profile: "weekly", Generator: "file", Missed: "sometimes", Enabled: true})
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
	for _, what := range []string{"cron", "name", "profile", "generator", "missed"} {
		require.ErrorContains(t, err, what)
	}
	saved(t, s, nightly())
	_, err = s.SaveSchedule(t.Context(), nightly())
	require.ErrorIs(t, err, orchestrator.ErrInvalid)
	require.ErrorContains(t, err, "another schedule of that name")
	list, err := s.Schedules(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestThreeInstancesFireADueTimeOnce(t *testing.T) {
	s, _, dsn := seeded(t)
	instances := []*postgres.Store{s, open(t, dsn), open(t, dsn)}
	const schedules, days = 4, 3
	var first time.Time
	for _, name := range []string{"a", "b", "c", "d"} {
		sc := nightly()
		sc.Name, sc.Zone = name, "UTC" // where 24 hours later is the next day
		first = saved(t, s, sc).NextRun
	}
	for day := range days {
		now := first.AddDate(0, 0, day).Add(2 * time.Minute)
		var mu sync.Mutex
		var all []orchestrator.Cycle
		var wg sync.WaitGroup
		for _, instance := range instances {
			for range 3 {
				wg.Go(func() {
					fired, err := instance.FireDue(t.Context(), now)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					all = append(all, fired...)
				})
			}
		}
		wg.Wait()
		require.Len(t, all, schedules, "day %d", day)
		for _, c := range all { // out of the way of the next day's
			require.Equal(t, []any{"schedule", orchestrator.Queued, loadtest.Nightly}, []any{c.Trigger, c.Status, c.Profile})
			require.NoError(t, s.Cancel(t.Context(), c.ID, "test"))
		}
	}
}

func TestAMissedRunIsMadeUpForOnceOrLeftOut(t *testing.T) {
	s, _, _ := seeded(t)
	once := saved(t, s, nightly())
	skipping := nightly()
	skipping.Name, skipping.Missed = "skipping", "skip"
	skipping = saved(t, s, skipping)

	now := once.NextRun.Add(3*24*time.Hour + 9*time.Hour) // three nights were missed
	fired, err := s.FireDue(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, fired, 1)
	require.Equal(t, once.ID, fired[0].Schedule)

	once, err = s.Schedule(t.Context(), once.ID)
	require.NoError(t, err)
	require.True(t, once.NextRun.After(now))
	require.Contains(t, once.LastNote, "missed by")
	require.Equal(t, fired[0].ID, once.LastCycle)
	require.WithinDuration(t, now, once.LastRun, time.Millisecond)

	skipping, err = s.Schedule(t.Context(), skipping.ID)
	require.NoError(t, err)
	require.True(t, skipping.NextRun.After(now))
	require.Contains(t, skipping.LastNote, "left out")
	require.True(t, skipping.LastRun.IsZero())

	again, err := s.FireDue(t.Context(), now)
	require.NoError(t, err)
	require.Empty(t, again)
}

func TestALateRunWithinTheHourIsNotMissed(t *testing.T) {
	s, _, _ := seeded(t)
	sc := nightly()
	sc.Missed = "skip"
	sc = saved(t, s, sc)
	early, err := s.FireDue(t.Context(), sc.NextRun.Add(-time.Second))
	require.NoError(t, err)
	require.Empty(t, early)
	fired, err := s.FireDue(t.Context(), sc.NextRun.Add(59*time.Minute))
	require.NoError(t, err)
	require.Len(t, fired, 1)
	sc, err = s.Schedule(t.Context(), sc.ID)
	require.NoError(t, err)
	require.Empty(t, sc.LastNote)
}

func TestTwoRunsOfAScheduleNeverOverlap(t *testing.T) {
	s, _, _ := seeded(t)
	sc := saved(t, s, nightly())
	c, err := s.RunNow(t.Context(), sc.ID, "ada")
	require.NoError(t, err)
	require.Equal(t, "ada", c.Actor)
	busy, err := s.RunNow(t.Context(), sc.ID, "ada")
	require.ErrorIs(t, err, orchestrator.ErrBusy)
	require.Equal(t, c.ID, busy.ID)
	for _, state := range []string{"queued", "running"} {
		sc, err = s.Schedule(t.Context(), sc.ID)
		require.NoError(t, err)
		fired, err := s.FireDue(t.Context(), sc.NextRun.Add(time.Second))
		require.NoError(t, err)
		require.Empty(t, fired, state)
		after, err := s.Schedule(t.Context(), sc.ID)
		require.NoError(t, err)
		require.Contains(t, after.LastNote, "left out: cycle")
		require.True(t, after.NextRun.After(sc.NextRun))
		if state == "queued" {
			_, ok, err := s.Claim(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
	_, err = s.RunNow(t.Context(), 99, "ada")
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
}

func TestAScheduledCycleWaitsForAnother(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	sc := saved(t, s, nightly())
	fired, err := s.FireDue(t.Context(), sc.NextRun)
	require.NoError(t, err)
	require.Len(t, fired, 1)
	_, ok, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.False(t, ok, "one cycle per target")
	end(t, s, c, orchestrator.Finished)
	next, ok, err := s.Claim(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, fired[0].ID, next.ID)
}
