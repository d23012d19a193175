package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a run must have to be evidence, beside what health.go checks.
const (
	maxGarbage    = 0.01 // of the stream's lines …
	minGarbage    = 10   // … but a line or so cut off at the end of a run spoils nothing
	garbageFlood  = 100_000
	exitThreshold = 99 // k6: a threshold of the script's was crossed, which is the script's opinion and not ours
)

// account is what is known of a run beside its measurements.
type account struct {
	events         int // that the shape has
	lines, garbage int64
	backwards      int64  // requests that ended long before others that came earlier in the stream
	timed          int64  // requests with a latency
	stopped        string // why Retune ended the driver, if it did
	signal         string // that ended the driver, if one did
}

// invalid says, one sentence each, why a run is no evidence. No data is never a pass.
func invalid(r Result, a account) (why []string) {
	say := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	say(a.stopped != "", "%s was stopped: %s.", r.Driver, a.stopped)
	say(a.stopped == "" && exitReason(r, a) != "", "%s", exitReason(r, a))
	for _, c := range r.Health() {
		say(c.State == Beyond, "%s", c.Says)
	}
	say(a.timed == 0, "No request has a latency: there is no p95. See that the target is up and reachable.")
	say(a.timed > 0 && r.Failed == r.Requests, "Every request failed (%s): nothing of the service was measured. See that the target and its backends are up.", r.statuses())
	for _, m := range r.Marks {
		say(m.Failed, "An event did not happen: %s %s.", m.Action, m.Detail)
	}
	say(len(r.Marks) < a.events, "Only %d of the shape's %d events were tried.", len(r.Marks), a.events)
	say(a.backwards > minGarbage, "The clock of the driver's machine was set back during the run: %d requests ended before others that came earlier. Have it slewed, not set.", a.backwards)
	say(a.garbage > minGarbage && float64(a.garbage) > maxGarbage*float64(a.lines), "%d of %d lines of the driver's stream could not be read.", a.garbage, a.lines)
	return why
}

// unrevived says that backends could not be revived before or after a run: what was measured then, or will be next, is
// a backend that is still failed or slowed.
func unrevived(when string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s the run, %s.", when, strings.ReplaceAll(err.Error(), "\n", "; "))}
}

// FailedThroughout reports whether a run is no evidence for one reason alone: every request failed. Of a champion that
// tells nothing; against a candidate it is evidence enough.
func (r Result) FailedThroughout() bool {
	return r.Requests > 0 && r.Failed == r.Requests && r.P95MS > 0 && len(r.Invalid) == 1
}

// statuses are the most frequent answers and error codes, such as "500: 640".
func (r Result) statuses() string {
	codes := slices.SortedFunc(maps.Keys(r.Status), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Status[b], r.Status[a]), cmp.Compare(a, b))
	})
	var all []string
	for _, c := range codes[:min(3, len(codes))] {
		all = append(all, fmt.Sprintf("%s: %d", cmp.Or(c, "no status"), r.Status[c]))
	}
	return strings.Join(all, ", ")
}

// k6Exits is what k6's exit codes mean; 0 says nothing about success, which the data does.
var k6Exits = map[int]string{
	97:  "it could not log in to its cloud",
	98:  "its cloud refused the run",
	100: "the script's setup took too long",
	101: "the script's teardown took too long",
	102: "something took too long",
	103: "it was stopped over its REST API",
	104: "its options are wrong or name a function that the script lacks",
	105: "it was interrupted",
	106: "its REST server could not listen",
	107: "the script threw, does not parse, or imports what can't be had",
	108: "the script aborted the run",
	109: "k6 crashed",
	110: "the script marked the run as failed",
	255: "its command line was refused or the script is missing",
}

// exitReason is what an exit code tells against a run; "" for 0 and for a crossed threshold.
func exitReason(r Result, a account) string {
	if a.signal != "" {
		return fmt.Sprintf("%s was ended by a signal (%s).", r.Driver, a.signal)
	}
	if r.ExitCode == 0 || r.ExitCode == exitThreshold {
		return ""
	}
	meaning := k6Exits[r.ExitCode]
	switch {
	case r.Driver == Builtin && r.ExitCode == 130:
		meaning = "it was interrupted"
	case r.Driver == Builtin || meaning == "":
		meaning = "its log says why"
	}
	return fmt.Sprintf("%s exited with code %d: %s.", r.Driver, r.ExitCode, meaning)
}
