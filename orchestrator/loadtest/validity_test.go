package loadtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoDataIsNeverAPass(t *testing.T) {
	good := Result{Driver: K6, Planned: 1000, Requests: 1000, DriverCPU: 0.5}
	sound := account{lines: 13_000, timed: 1000}
	require.Empty(t, invalid(good, sound))
	for name, c := range map[string]struct {
		change func(r *Result, a *account)
		want   string // "" for valid
	}{
		"99 requests":  {func(r *Result, _ *account) { r.Planned, r.Requests = 99, 99 }, "Only 99 requests were measured; 100 are the least that is evidence. Make the scenario longer, or raise its rates."},
		"100 requests": {func(r *Result, _ *account) { r.Planned, r.Requests = 100, 100 }, ""},
		"no latency":   {func(_ *Result, a *account) { a.timed = 0 }, "No request has a latency: there is no p95. See that the target is up and reachable."},
		"every response an error": {func(r *Result, _ *account) { r.Failed, r.Status = 1000, map[string]int64{"500": 1, "503": 999} },
			"Every request failed (503: 999, 500: 1): nothing of the service was measured. See that the target and its backends are up."},
		"all but one response an error":   {func(r *Result, _ *account) { r.Failed = 999 }, ""},
		"a clock that was set back":       {func(_ *Result, a *account) { a.backwards = 11 }, "The clock of the driver's machine was set back during the run: 11 requests ended before others that came earlier. Have it slewed, not set."},
		"a few out of order":              {func(_ *Result, a *account) { a.backwards = 10 }, ""},
		"94.9% of the plan":               {func(r *Result, _ *account) { r.Requests = 949 }, "949 of 1000 planned requests were made (94.9%); at least 95% are needed. Free the driver's machine, or lower the rates."},
		"95% of the plan":                 {func(r *Result, _ *account) { r.Requests = 950 }, ""},
		"a closed loop has no plan":       {func(r *Result, _ *account) { r.Planned = 0 }, ""},
		"1.1% dropped":                    {func(r *Result, _ *account) { r.Dropped, r.Requests = 11, 989 }, "11 of 1000 requests were dropped (1.1%), since the driver could not start them on time; at most 1% may be. Free the driver's machine, lower the rates, or see why answers take so long."},
		"1% dropped":                      {func(r *Result, _ *account) { r.Dropped, r.Requests = 10, 990 }, ""},
		"the driver above 80% of a core":  {func(r *Result, _ *account) { r.DriverCPU = 0.81 }, "The driver used 81% of a core; beyond 80% it measures itself. Lower the rates."},
		"the driver at 80%":               {func(r *Result, _ *account) { r.DriverCPU = 0.8 }, ""},
		"a crossed threshold":             {func(r *Result, _ *account) { r.ExitCode = 99 }, ""},
		"an exit code":                    {func(r *Result, _ *account) { r.ExitCode = 107 }, "k6 exited with code 107: the script threw, does not parse, or imports what can't be had."},
		"an unheard-of exit code":         {func(r *Result, _ *account) { r.ExitCode = 42 }, "k6 exited with code 42: its log says why."},
		"the built-in driver interrupted": {func(r *Result, _ *account) { r.Driver, r.ExitCode = Builtin, 130 }, "builtin exited with code 130: it was interrupted."},
		"a signal":                        {func(r *Result, a *account) { r.ExitCode, a.signal = -1, "killed" }, "k6 was ended by a signal (killed)."},
		"stopped by us":                   {func(r *Result, a *account) { r.ExitCode, a.stopped = 105, "it was silent for 15s" }, "k6 was stopped: it was silent for 15s."},
		"a stream that can't be read":     {func(_ *Result, a *account) { a.garbage = 131 }, "131 of 13000 lines of the driver's stream could not be read."},
		"a few bad lines":                 {func(_ *Result, a *account) { a.garbage = 130 }, ""},
		"every event happened":            {func(r *Result, a *account) { a.events, r.Marks = 1, []Mark{{Action: ActionFail, Detail: "a"}} }, ""},
		"an event failed": {func(r *Result, a *account) {
			a.events, r.Marks = 1, []Mark{{Action: ActionFail, Detail: "a (control answered 404)", Failed: true}}
		}, "An event did not happen: fail a (control answered 404)."},
		"an event is missing": {func(r *Result, a *account) { a.events, r.Marks = 2, []Mark{{Action: ActionFail, Detail: "a"}} }, "Only 1 of the shape's 2 events were tried."},
		"one bad line of ten": {func(_ *Result, a *account) { a.lines, a.garbage = 10, 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := good, sound
			c.change(&r, &a)
			got := invalid(r, a)
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Equal(t, []string{c.want}, got)
		})
	}
	require.Len(t, invalid(Result{Driver: K6, Planned: 1000}, account{}), 3, "exit code 0 having sent nothing: too few, no p95, not the plan")
}
