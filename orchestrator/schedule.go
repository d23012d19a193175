package orchestrator

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // named zones on machines without a zone table

	"github.com/netresearch/go-cron"
)

// cronParser takes the five customary fields; a day matches by day of month or day of week when both are given.
var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)

// shorthands are the names that a cron text may be.
var shorthands = map[string]string{
	"@hourly": "0 * * * *",
	"@daily":  "0 0 * * *",
	"@weekly": "0 0 * * 0",
}

// Next is the first time after a given one at which a schedule is due. cron is five fields (minute, hour, day of
// month, month, day of week) or @hourly, @daily, @weekly; zone names a time zone, such as Europe/Berlin.
//
// A time of day that a change of the clocks leaves out is due as much later as the clocks were put on (02:30 at
// 03:30); one that comes twice is due the first time. ErrInvalid for a text that means nothing or is never due.
func Next(cron, zone string, after time.Time) (time.Time, error) {
	list, err := Upcoming(cron, zone, after, 1)
	if err != nil {
		return time.Time{}, err
	}
	return list[0], nil
}

// Upcoming are the next n times, as Next gives them.
func Upcoming(cron, zone string, after time.Time, n int) ([]time.Time, error) {
	place, err := location(zone)
	if err != nil {
		return nil, err
	}
	text := cron
	if long, ok := shorthands[cron]; ok {
		text = long
	}
	fields := strings.Fields(text)
	if len(fields) != 5 || strings.ContainsAny(text, "=@") {
		return nil, badCron(cron, errors.New("want five fields (minute hour day month weekday), @hourly, @daily or @weekly; the time zone has a field of its own"))
	}
	schedule, err := cronParser.Parse(text)
	if err != nil {
		return nil, badCron(cron, err)
	}
	// The parser sees the clock on the wall as if it were UTC, which no change of the clocks disturbs: across one it
	// loses or repeats a day in some zones.
	list := make([]time.Time, 0, max(n, 0))
	// What a change has left out is due after walls have gone past it, so the walk begins before the longest of changes.
	wall := onWall(after.In(place), time.UTC).Add(-longestChange)
	for len(list) < n {
		if wall = schedule.Next(wall); wall.IsZero() {
			return nil, badCron(cron, errors.New("it is never due"))
		}
		if t := dueAt(wall, place); t.After(after) {
			list, after = append(list, t), t
		}
	}
	return list, nil
}

// longestChange is more than clocks are ever put on by.
const longestChange = 3 * time.Hour

func badCron(text string, err error) error {
	return fmt.Errorf("%w: cron %q: %w", ErrInvalid, text, err)
}

// location is a named zone. "Local" would mean something else on each machine.
func location(zone string) (*time.Location, error) {
	if zone == "" || zone == "Local" {
		return nil, fmt.Errorf("%w: time zone %q: name one, such as UTC or Europe/Berlin", ErrInvalid, zone)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("%w: time zone %q is not known: name one such as UTC or Europe/Berlin", ErrInvalid, zone)
	}
	return place, nil
}

// onWall is the instant at which a clock in another place shows what t shows.
func onWall(t time.Time, place *time.Location) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), place)
}

// dueAt is the instant at which a clock in a place shows a time, which is given as UTC: the first when there are two,
// as much later as the clock was put on when there is none.
func dueAt(wall time.Time, place *time.Location) time.Time {
	t := onWall(wall, place)
	if early := wall.Sub(onWall(t, time.UTC)); early > 0 {
		return t.Add(early)
	}
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Nanosecond).Zone()
	_, now := t.Zone()
	if setBack := time.Duration(before-now) * time.Second; t.Sub(start) < setBack {
		return t.Add(-setBack)
	}
	return t
}
