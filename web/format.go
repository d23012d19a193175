package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
)

// none stands where there is no figure: a missing value must never read as 0.
const none = "–"

// figure writes a positive quantity with about three digits: 0.42, 8.31, 41.0, 1,204.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case a >= 100 || a == 0:
		return grouped(int64(math.Round(v)))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// known is figure for what is never 0 when it was measured, such as a latency.
func known(v float64) string {
	if v == 0 {
		return none
	}
	return figure(v)
}

// milliseconds is known with its unit.
func milliseconds(v float64) string {
	if v == 0 {
		return none
	}
	return figure(v) + " ms"
}

// grouped writes an integer with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// share writes a share in [0, 1] as a percentage.
func share(v float64) string {
	p := v * 100
	if p == 0 || p >= 10 {
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	}
	return strconv.FormatFloat(p, 'f', 2, 64) + "%"
}

// change writes an effect of a metric with its sign: a percentage, or percentage points for the error rate.
func change(m verdict.Metric, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	unit, digits := "%", 1
	if m == verdict.ErrorRate {
		unit, digits = " pp", 2
	}
	s := strconv.FormatFloat(math.Abs(v*100), 'f', digits, 64) + unit
	switch {
	case v < 0:
		return "−" + s
	case v > 0:
		return "+" + s
	}
	return s
}

// measured writes a metric's value with its unit.
func measured(m verdict.Metric, v float64) string {
	switch m {
	case verdict.P95:
		return milliseconds(v)
	case verdict.ErrorRate:
		return share(v)
	}
	return figure(v) + " /s"
}

// metricName is a metric's name for people.
func metricName(m verdict.Metric) string {
	switch m {
	case verdict.P95:
		return "p95 latency"
	case verdict.RPS:
		return "RPS"
	case verdict.ErrorRate:
		return "error rate"
	}
	return string(m)
}

// span writes a duration for people: 820 ms, 12 s, 5 min 42 s, 1 h 04 min, 3 d 5 h.
func span(d time.Duration) string {
	switch s := int(d.Round(time.Second).Seconds()); {
	case d <= 0:
		return none
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}

// between is the time from a to b; to now while b is open.
func between(a, b time.Time) string {
	if a.IsZero() {
		return none
	}
	if b.IsZero() {
		b = time.Now()
	}
	return span(b.Sub(a))
}

// words turns a name such as rolled_back or cost_usd into words.
func words[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }

// versionName is v7, or a dash for none.
func versionName(n int) string {
	if n == 0 {
		return none
	}
	return "v" + strconv.Itoa(n)
}

// tone is the colour class of a status word; the word itself always stands beside the colour.
func tone(word string) string {
	switch word {
	case "kept", "active", "healthy", "ok", "finished", "within", "on", "paid", "chosen":
		return "good"
	case "rolled_back", "failed", "unhealthy", "ejected", "invalid", "beyond", "cost",
		"invalid_json", "invalid_rules", "timeout", "http_error", "refused", "truncated", "empty":
		return "bad"
	case "inconclusive", "interrupted", "cancelled", "draining", "slow_start", "undecided", "unproved", "unclear":
		return "warn"
	case "queued", "baseline", "generating", "applying", "settling", "verifying", "on_trial":
		return "busy"
	}
	return "plain"
}

// p95Change is a verdict's p95 effects over its scenarios, from the best to the worst.
func p95Change(v *verdict.Verdict) string {
	low, high, found := math.Inf(1), math.Inf(-1), false
	if v == nil {
		return none
	}
	for _, f := range v.Findings {
		if f.Metric == verdict.P95 {
			low, high, found = min(low, f.Effect), max(high, f.Effect), true
		}
	}
	best, worst := change(verdict.P95, low), change(verdict.P95, high)
	switch {
	case !found:
		return none
	case best == worst:
		return best
	}
	return best + " … " + worst
}

// kindName is what a cycle is called for people.
func kindName(k orchestrator.Kind) string {
	if k == orchestrator.Calibrate {
		return "noise calibration"
	}
	return "tuning cycle"
}

// plainly is a verdict's reason without the outcome that it begins with, for where the outcome stands before it.
func plainly(reason string) string {
	for _, o := range []verdict.Outcome{verdict.Kept, verdict.RolledBack, verdict.Inconclusive} {
		if rest, ok := strings.CutPrefix(reason, words(o)+": "); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return reason
}
