package balance

import (
	"fmt"
	"slices"
	"strings"
)

// table has the constructor of each algorithm; each stands in the file of its name.
var table = map[Algorithm]func([]*Backend, Options) Picker{
	RoundRobin:               newRoundRobin,
	WeightedRoundRobin:       newWeightedRoundRobin,
	LeastConnections:         newLeastConnections,
	WeightedLeastConnections: newWeightedLeastConnections,
	IPHash:                   newIPHash,
	ConsistentHash:           newConsistentHash,
	LeastResponseTime:        newLeastResponseTime,
	Random:                   newRandom,
	P2CPeakEWMA:              newP2CPeakEWMA,
	ExpectedCompletion:       newExpectedCompletion,
}

// New builds the picker of a over backends, which it copies. An empty set is no error: Pick answers nil.
// An unknown name is an error that lists the known ones.
func New(a Algorithm, backends []*Backend, o Options) (Picker, error) {
	build, ok := table[a]
	if !ok {
		return nil, fmt.Errorf("unknown algorithm %q: want one of %s", a, names())
	}
	return build(slices.Clone(backends), o), nil
}

// names lists the known algorithms for an error message.
func names() string {
	var s []string
	for _, a := range Algorithms() {
		s = append(s, string(a))
	}
	return strings.Join(s, ", ")
}
