package orchestrator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNext(t *testing.T) {
	for _, test := range []struct{ name, cron, zone, after, want string }{
		{"every night", "30 2 * * *", "UTC", "2026-05-01T12:00:00Z", "2026-05-02T02:30:00Z"},
		{"strictly after", "30 2 * * *", "UTC", "2026-05-01T02:30:00Z", "2026-05-02T02:30:00Z"},
		{"in its zone", "30 2 * * *", "Asia/Tokyo", "2026-05-01T12:00:00Z", "2026-05-01T17:30:00Z"},
		{"Sunday is 0", "0 3 * * 0", "UTC", "2026-05-01T00:00:00Z", "2026-05-03T03:00:00Z"},
		{"Sunday is 7", "0 3 * * 7", "UTC", "2026-05-01T00:00:00Z", "2026-05-03T03:00:00Z"},
		{"day of month or weekday", "0 3 15 * 1", "UTC", "2026-05-05T00:00:00Z", "2026-05-11T03:00:00Z"},
		{"leap day", "0 0 29 2 *", "UTC", "2026-05-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"@hourly", "@hourly", "UTC", "2026-05-01T12:34:00Z", "2026-05-01T13:00:00Z"},
		{"@daily", "@daily", "Europe/Berlin", "2026-05-01T12:34:00Z", "2026-05-01T22:00:00Z"},
		{"@weekly", "@weekly", "UTC", "2026-05-01T12:34:00Z", "2026-05-03T00:00:00Z"},
		{"spring: 02:30 is left out and due at 03:30", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"spring: the day after is as ever", "30 2 * * *", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		{"spring: every hour goes on every hour", "0 * * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"spring: another time that is left out, after the first", "0,30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"},
		{"spring: saved after the change", "30 2 * * *", "Europe/Berlin", "2026-03-29T01:10:00Z", "2026-03-29T01:30:00Z"},
		{"spring: midnight is left out, west of Greenwich", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"},
		{"spring: midnight is left out", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"autumn: 02:30 comes twice, the first is due", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"autumn: the second is not", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"autumn: nor when the first was missed", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
		{"autumn: after the change it is once", "30 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00Z"},
		{"autumn: every hour leaves out the hour that comes twice", "30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"},
		{"half an hour's change", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		{"half an hour's change back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T15:00:00Z", "2026-04-04T14:45:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			after, err := time.Parse(time.RFC3339, test.after)
			require.NoError(t, err)
			got, err := Next(test.cron, test.zone, after)
			require.NoError(t, err)
			require.Equal(t, test.want, got.UTC().Format(time.RFC3339))
		})
	}
}

func TestEveryDayOfAYearIsDueOnce(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kolkata"} {
		for _, cron := range []string{"30 2 * * *", "0 0 * * *", "45 1 * * *", "45 23 * * *"} {
			start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			list, err := Upcoming(cron, zone, start, 365)
			require.NoError(t, err)
			days := map[string]bool{}
			for _, at := range list {
				days[at.Format(time.DateOnly)] = true
			}
			require.Equal(t, 365, len(days), "%s in %s", cron, zone) // not Len, which prints all
			require.WithinDuration(t, start.AddDate(0, 0, 365), list[364], 24*time.Hour)
		}
	}
}

func TestNextRefusesWhatMeansNothing(t *testing.T) {
	for _, test := range []struct{ name, cron, zone string }{
		{"empty", "", "UTC"},
		{"four fields", "0 2 * *", "UTC"},
		{"six fields", "0 0 2 * * *", "UTC"},
		{"out of range", "61 2 * * *", "UTC"},
		{"words", "every night", "UTC"},
		{"a zone inside", "TZ=Europe/Berlin 0 2 * * *", "UTC"},
		{"a zone instead of a field", "TZ=UTC 2 * * *", "UTC"},
		{"a zone that made another parser panic", "TZ=0", "UTC"},
		{"another prefix", "CRON_TZ=UTC 0 2 * * *", "UTC"},
		{"an interval", "@every 1h", "UTC"},
		{"an unknown name", "@noon", "UTC"},
		{"never due", "0 0 30 2 *", "UTC"},
		{"no zone", "0 2 * * *", ""},
		{"the machine's own zone", "0 2 * * *", "Local"},
		{"an unknown zone", "0 2 * * *", "Mars/Olympus"},
		{"a path", "0 2 * * *", "../etc/passwd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Next(test.cron, test.zone, time.Unix(0, 0))
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}

func FuzzNext(f *testing.F) {
	for _, cron := range []string{"30 2 * * *", "@daily", "TZ=0", "*/7 1-5 L * 5#2", "0 0 30 2 *", "H H * * *"} {
		f.Add(cron)
	}
	after := time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, cron string) {
		next, err := Next(cron, "Europe/Berlin", after)
		if err == nil && !next.After(after) {
			t.Fatalf("%q: %v is not after %v", cron, next, after)
		}
	})
}
