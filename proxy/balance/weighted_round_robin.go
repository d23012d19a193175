package balance

import "sync/atomic"

// weightedRoundRobin takes the backends in turn, each as often as its weight says and spread out evenly: one
// cycle of nginx's smooth weighted round robin, written down beforehand.
type weightedRoundRobin struct {
	cycle []*Backend
	next  atomic.Uint64
	dice  *dice
}

func newWeightedRoundRobin(backends []*Backend, o Options) Picker {
	p := &weightedRoundRobin{cycle: smoothCycle(backends), dice: newDice(o.Seed)}
	p.next.Store(p.dice.roll())
	return p
}

func (p *weightedRoundRobin) Pick(uint64) *Backend { return turn(p.cycle, &p.next, p.dice) }

// smoothCycle lets each backend gain its weight a step; the one that has gained most is next, and pays the
// sum of all weights.
func smoothCycle(backends []*Backend) []*Backend {
	weights, sum := cycleWeights(backends)
	gained := make([]int, len(backends))
	cycle := make([]*Backend, sum)
	for i := range cycle {
		best := 0
		for j, w := range weights {
			gained[j] += w
			if gained[j] > gained[best] {
				best = j
			}
		}
		gained[best] -= sum
		cycle[i] = backends[best]
	}
	return cycle
}

// cycleWeights are the weights in lowest terms; if their sum is past what a cycle may hold they are scaled
// down, none below 1.
func cycleWeights(backends []*Backend) (weights []int, sum int) {
	divisor, total := 0, 0.0
	for _, b := range backends {
		w := b.Weight()
		weights = append(weights, w)
		divisor = gcd(w, divisor)
		total += float64(w)
	}
	scale := min(1, float64(longestCycle(len(backends)))*float64(divisor)/total)
	for i := range weights {
		weights[i] /= divisor
		if scale < 1 {
			weights[i] = max(1, int(float64(weights[i])*scale+0.5))
		}
		sum += weights[i]
	}
	return weights, sum
}

// longestCycle keeps building the cycle under 2^26 steps (about 0.1 s) and its size under 1 MB or so.
func longestCycle(n int) int { return max(4*n, min(1<<16, 1<<26/max(n, 1))) }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
