package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/postgres"
)

// nights are schedules around the nights on which clocks are changed: when each is due on the night before, on that night,
// and on the one after.
var nights = []struct{ name, cron, zone, before, changed, after string }{
	{"Berlin, spring: 02:30 is left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
	{"Berlin, autumn: 02:30 comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
	{"New York, spring: 02:30 is left out", "30 2 * * *", "America/New_York", "2026-03-07T07:30:00Z", "2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"},
	{"New York, autumn: 02:30 comes once, after the change", "30 2 * * *", "America/New_York", "2026-10-31T06:30:00Z", "2026-11-01T07:30:00Z", "2026-11-02T07:30:00Z"},
	{"New York, autumn: 01:30 comes twice", "30 1 * * *", "America/New_York", "2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
	{"Lord Howe, spring: 02:30 is the first instant after the change", "30 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:30:00Z"},
	{"Lord Howe, spring: 02:15 is left out", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T15:45:00Z", "2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"},
	{"Lord Howe, autumn: 02:30 comes once, half an hour after the change", "30 2 * * *", "Australia/Lord_Howe", "2026-04-03T15:30:00Z", "2026-04-04T16:00:00Z", "2026-04-05T16:00:00Z"},
	{"Lord Howe, autumn: 01:45 comes twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T14:45:00Z", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// clock is two instances on one database, whose time the test moves.
type clock struct {
	t         *testing.T
	instances [2]*postgres.Store
	schedule  int64
}

// scheduled is a schedule as it was saved a while before an instant: due at its next time.
func scheduled(t *testing.T, cron, zone, missed string, at time.Time) clock {
	t.Helper()
	s, conn, dsn := seeded(t)
	sc := nightly()
	sc.Cron, sc.Zone, sc.Missed = cron, zone, missed
	sc = saved(t, s, sc)
	next, err := orchestrator.Next(cron, zone, at.Add(-time.Hour))
	require.NoError(t, err)
	require.True(t, next.Equal(at), "%s, not %s", next, at)
	_, err = conn.Exec(t.Context(), "UPDATE schedule SET next_run_at = $1 WHERE id = $2", next, sc.ID)
	require.NoError(t, err)
	return clock{t, [2]*postgres.Store{s, open(t, dsn)}, sc.ID}
}

// fired is how many cycles the instances start between them at an instant. Each cycle is over at once.
func (c clock) fired(now time.Time) (n int) {
	c.t.Helper()
	var each [2][]orchestrator.Cycle
	var both sync.WaitGroup
	for i, s := range c.instances {
		both.Go(func() {
			var err error
			if each[i], err = s.FireDue(c.t.Context(), now); err != nil {
				c.t.Error(err)
			}
		})
	}
	both.Wait()
	for _, fired := range each {
		for _, cycle := range fired {
			n++
			require.Equal(c.t, c.schedule, cycle.Schedule)
			require.NoError(c.t, c.instances[0].Cancel(c.t.Context(), cycle.ID, "test"))
		}
	}
	return n
}

func (c clock) note() string {
	c.t.Helper()
	sc, err := c.instances[0].Schedule(c.t.Context(), c.schedule)
	require.NoError(c.t, err)
	return sc.LastNote
}

func TestAScheduleFiresOnceOnEachNightThatClocksAreChanged(t *testing.T) {
	for _, n := range nights {
		t.Run(n.name, func(t *testing.T) {
			due := []time.Time{instant(t, n.before), instant(t, n.changed), instant(t, n.after)}
			c := scheduled(t, n.cron, n.zone, "run_once", due[0])
			var fired []time.Time
			for _, night := range due { // from before the clocks are changed until what comes twice has come twice
				for now := night.Add(-75 * time.Minute); now.Before(night.Add(2 * time.Hour)); now = now.Add(15 * time.Minute) {
					for range c.fired(now) {
						fired = append(fired, now)
					}
				}
			}
			require.Equal(t, due, fired)
			require.Empty(t, c.note())
		})
	}
}

func TestAnOrchestratorThatIsDownWhileClocksAreChanged(t *testing.T) {
	for _, i := range []int{0, 1, 4, 8} { // left out, or twice
		n := nights[i]
		before, changed, after := instant(t, n.before), instant(t, n.changed), instant(t, n.after)
		for _, down := range []struct {
			name, missed string
			back         time.Time
			fires        int
			note         string
		}{
			{"until noon, made up for", "run_once", changed.Add(10 * time.Hour), 1, "made up for once"},
			{"until noon, left out", "skip", changed.Add(10 * time.Hour), 0, "left out"},
			{"for less than an hour", "skip", changed.Add(40 * time.Minute), 1, ""},
		} {
			t.Run(n.name+", "+down.name, func(t *testing.T) {
				c := scheduled(t, n.cron, n.zone, down.missed, before)
				require.Equal(t, 1, c.fired(before))
				require.Equal(t, down.fires, c.fired(down.back))
				require.Contains(t, c.note(), down.note)
				for _, now := range []time.Time{down.back.Add(time.Second), down.back.Add(20 * time.Minute), down.back.Add(time.Hour), after.Add(-time.Second)} {
					require.Zero(t, c.fired(now), now)
				}
				require.Equal(t, 1, c.fired(after))
			})
		}
	}
}
