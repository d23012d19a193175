package balance

import "math"

const (
	// Each failure raises the level by one, up to troubleMost; each success takes off a quarter, and so does
	// each troubleFade without news, so that a backend that stays dead is tried again every few seconds. One
	// that fails more often than one time in five ends up at the top.
	troubleMost   = 10
	troubleRelief = 0.25
	troubleFade   = 0.5e9 // nanoseconds
)

// trouble is how badly a backend has been failing: at level n it costs 2^n times what its response time says.
// It is kept apart from response times: these stay honest, one failure among many successes costs little, and
// a backend that answers 500 in a millisecond doesn't look fast.
type trouble struct {
	level estimate // levelUnit times the level, so as to stay over the smallest estimate
}

const levelUnit = 1 << 10

// at is the level as it has faded, at least 0.
func (t *trouble) at(now int64) float64 {
	if !t.level.known() {
		return 0
	}
	return faded(t.level.read(now))
}

func faded(v, age float64) float64 { return max(0, v/levelUnit-age/troubleFade*troubleRelief) }

// factor is 2^level.
func (t *trouble) factor(now int64) float64 {
	level := t.at(now)
	if level == 0 {
		return 1
	}
	return math.Exp2(level)
}

func (t *trouble) observe(now int64, failed bool) {
	if failed {
		t.level.update(now, func(v, age float64) float64 {
			return min(faded(v, age)+1, troubleMost) * levelUnit
		})
		return
	}
	old := t.level.word.Load()
	if old == 0 {
		return
	}
	next := uint64(0)
	if level := faded(valueOf(old), ageOf(old, now)) - troubleRelief; level > 0 {
		next = pack(level*levelUnit, now)
	}
	t.level.word.CompareAndSwap(old, next) // a lost race was news as good as this one
}
