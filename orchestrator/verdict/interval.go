package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// forgiven is by how much arithmetic may miss an exact boundary: 850 of 1000 RPS is a decrease of
// 0.15000000000000002 in float64, and not degraded.
const forgiven = 1e-9

const (
	// maxKnown bounds the degrees of freedom that known noise counts for, so that a machine that changed is believed.
	maxKnown = 30
	// enough is how many degrees of freedom of prior knowledge a scenario is brought up to by borrowing the spread of
	// the same metric in this cycle's other scenarios. Few, because scenarios are not equally noisy.
	enough = 3
	// contradiction is how improbable this cycle's spread must be under the known noise before that is raised to it, in
	// all scenarios by the same factor and for no more degrees of freedom than told it. It isn't just forgotten: where
	// few pairs happen to look alike that would make an interval narrower, and more noise would decide.
	contradiction = 0.01
)

// metrics in the order in which findings list them.
var metrics = []Metric{P95, RPS, ErrorRate}

// ratio reports whether the metric is judged as candidate / champion, on the log scale.
func (m Metric) ratio() bool { return m != ErrorRate }

// value reads the metric from a measurement.
func (m Metric) value(x Measurement) float64 {
	switch m {
	case P95:
		return x.P95MS
	case RPS:
		return x.RPS
	}
	return x.ErrorRate
}

// change is one pair's figure: the log of the ratio, or the difference. A candidate that answered nothing without
// failure has no log; it counts as if it had answered one request.
func (m Metric) change(p Pair) float64 {
	a, b := m.value(p.Champion), m.value(p.Candidate)
	if !m.ratio() {
		return b - a
	}
	if b == 0 {
		b = a / float64(p.Candidate.Requests)
	}
	return math.Log(b / a)
}

// effect turns a change into what people read: ratio - 1, or the difference as it is.
func (m Metric) effect(change float64) float64 {
	if m.ratio() {
		return math.Expm1(change)
	}
	return change
}

// limit is how far the effect may go, signed.
func (m Metric) limit(l Limits) float64 {
	switch m {
	case P95:
		return l.P95Increase
	case RPS:
		return -l.RPSDecrease
	}
	return l.ErrorIncrease
}

// floor is the least standard deviation of a change that is believed, however alike a few pairs look. Under open
// load RPS has almost no spread, and a histogram gives equal p95s twice running: 1% for both. The error rate's
// 0.1 points is beside the binomial floor of its counts.
func (m Metric) floor() float64 {
	if m.ratio() {
		return 0.01
	}
	return 0.001
}

// spread is a variance with its degrees of freedom: a sum of squares about a mean.
type spread struct{ ss, df float64 }

// spreadOf is how the changes scatter about their own mean.
func spreadOf(changes []float64) spread {
	mean := meanOf(changes)
	s := spread{df: float64(len(changes) - 1)}
	for _, c := range changes {
		s.ss += (c - mean) * (c - mean)
	}
	return s
}

func meanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func (s spread) plus(t spread) spread { return spread{s.ss + t.ss, s.df + t.df} }

func (s spread) minus(t spread) spread { return spread{max(0, s.ss-t.ss), s.df - t.df} }

// capped keeps the variance and counts it for at most df degrees of freedom.
func (s spread) capped(df float64) spread {
	if s.df <= df {
		return s
	}
	return spread{s.ss * df / s.df, df}
}

func (s spread) variance() float64 {
	if s.df <= 0 {
		return 0
	}
	return s.ss / s.df
}

// atLeast is the spread with a standard deviation that is no smaller: nothing, many times over, stays nothing.
func (s spread) atLeast(sd float64) spread { return spread{max(s.ss, sd*sd*s.df), s.df} }

// times is the spread of something that scatters more by that factor of variance.
func (s spread) times(factor float64) spread { return spread{s.ss * factor, s.df} }

// beyond is how many times the known variance s is, when that is more than chance allows (an F test), else 1.
func (s spread) beyond(known spread, m Metric) float64 {
	if s.df < 1 || known.df < 1 {
		return 1
	}
	ratio := s.variance() / max(known.variance(), m.floor()*m.floor())
	if (distuv.F{D1: s.df, D2: known.df}).Survival(ratio) >= contradiction {
		return 1
	}
	return ratio
}

// moderated pools a scenario's own spread with what is known of it, and with the other scenarios' of this cycle where
// too little is known: a moderated t-interval, as in Smyth, "Linear models and empirical Bayes methods for assessing
// differential expression", Statistical Applications in Genetics and Molecular Biology 3 (2004), with the prior's
// degrees of freedom fixed and small instead of fitted.
func moderated(own, known, others spread) spread {
	known = known.capped(maxKnown)
	return own.plus(known).plus(others.capped(max(0, enough-known.df)))
}

// estimate is a mean change with its standard error.
type estimate struct {
	mean, sd, df float64
	n            int
	least        float64 // floor of the standard error, from counts
	t            students
}

// estimateOf takes the mean of a scenario's pairs and the pooled spread.
func estimateOf(m Metric, g scenarioPairs, s spread, t students) estimate {
	e := estimate{
		mean: meanOf(g.changes(m)), n: len(g.pairs), df: s.df, t: t,
		sd: max(math.Sqrt(s.variance()), m.floor()),
	}
	if m == ErrorRate {
		e.least = binomial(g.pairs)
	}
	return e
}

// binomial is the standard error that the counts alone give a difference of error rates, over all pairs together,
// with one success and one failure added to each arm (Agresti and Caffo, The American Statistician 54, 2000): no
// error in 300 requests is not an error rate of exactly 0.
func binomial(pairs []Pair) float64 {
	arm := func(of func(Pair) Measurement) float64 {
		var errs, n float64
		for _, p := range pairs {
			x := of(p)
			errs += x.ErrorRate * float64(x.Requests)
			n += float64(x.Requests)
		}
		rate := (errs + 1) / (n + 2)
		return rate * (1 - rate) / (n + 2)
	}
	return math.Sqrt(arm(func(p Pair) Measurement { return p.Champion }) + arm(func(p Pair) Measurement { return p.Candidate }))
}

// students remembers quantiles of Student's t by degrees of freedom and tail: the findings of one verdict share a
// few, and each takes 20 µs to find.
type students map[[2]float64]float64

func (s students) quantile(df, tail float64) float64 {
	key := [2]float64{max(df, 1), tail}
	q, seen := s[key]
	if !seen {
		q = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: key[0]}.Quantile(1 - tail)
		s[key] = q
	}
	return q
}

// reach is how far the truth may be from the mean on one side, but for that tail's share of cases.
func (e estimate) reach(tail float64) float64 {
	return e.t.quantile(e.df, tail) * max(e.sd/math.Sqrt(float64(e.n)), e.least)
}

// interval is the interval of the change: of a metric of which more is worse, its high end is the one towards harm.
func (e estimate) interval(m Metric, t tails) (low, high float64) {
	if m == RPS {
		return e.mean - e.reach(t.acquit), e.mean + e.reach(t.condemn)
	}
	return e.mean - e.reach(t.condemn), e.mean + e.reach(t.acquit)
}

const (
	// MostPairs bounds Resolution.Needed and Finding.MorePairs: more is not worth measuring, and not counted.
	MostPairs = 99
	// mostly is in what share of cycles "would decide" is true.
	mostly = 0.8
)

// margin is how far from a limit the mean must truly lie for a look to decide in that share of cycles: the mean that is
// measured lies on the wrong side of the true one in half of them.
func (e estimate) margin(tail, share float64) float64 {
	return e.reach(tail) * (1 + distuv.UnitNormal.Quantile(share)/e.t.quantile(e.df, tail))
}

// more is how many pairs more would mostly bring the interval clear of the limit at the last look, if mean and spread
// stay where they are: an interval shrinks with the square root of the pairs.
func (e estimate) more(limit float64, last tails, share float64) int {
	tail := last.condemn
	if outcomeOf(e.mean, e.mean, limit) == Kept {
		tail = last.acquit
	}
	shrink := e.margin(tail, share) / math.Abs(limit-e.mean)
	pairs := float64(e.n) * shrink * shrink
	return int(min(max(1, math.Ceil(pairs)-float64(e.n)), MostPairs))
}
