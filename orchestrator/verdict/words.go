package verdict

import "fmt"

// words is the metric as people say it.
func (m Metric) words() string {
	switch m {
	case P95:
		return "p95"
	case RPS:
		return "RPS"
	}
	return "error rate"
}

// reason is the verdict in one sentence, with the figures of the finding that decided, or that is nearest to its limit.
func (v Verdict) reason(worst Finding) string {
	switch v.Outcome {
	case RolledBack:
		return "rolled back: " + worst.String()
	case Kept:
		return "kept: every metric of every scenario is within its limit; nearest to it: " + worst.String()
	case Inconclusive:
		return fmt.Sprintf("inconclusive: %s; about %d more pairs would decide", worst, v.MorePairs)
	}
	return fmt.Sprintf("undecided after %d pairs: %s", v.Pairs, worst)
}

// String reads like "p95 in burst 412 ms → 655 ms, +59% [+41%, +79%], limit +15%, 3 pairs".
func (f Finding) String() string {
	value, change, interval := "%.0f ms", "%+.0f%%", "[%+.0f%%, %+.0f%%]"
	show, scale := 1.0, 100.0
	switch f.Metric {
	case RPS:
		value = "%.1f"
	case ErrorRate:
		value, show = "%.2f%%", 100
		change, interval = "%+.1f points", "[%+.1f, %+.1f]"
	}
	if f.Metric == P95 && max(f.Champion, f.Candidate) < 100 {
		value = "%.1f ms"
	}
	return fmt.Sprintf("%s in %s "+value+" → "+value+", "+change+" "+interval+", limit "+change+", %d pairs",
		f.Metric.words(), f.Scenario, f.Champion*show, f.Candidate*show,
		f.Effect*scale, f.Low*scale, f.High*scale, f.Limit*scale, f.Pairs)
}
