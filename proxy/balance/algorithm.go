package balance

// Algorithm names a balancing policy, as it stands in rule files, the API and the UI.
type Algorithm string

// The ten algorithms. Each is one file of this package.
const (
	RoundRobin               Algorithm = "ROUND_ROBIN"
	WeightedRoundRobin       Algorithm = "WEIGHTED_ROUND_ROBIN"
	LeastConnections         Algorithm = "LEAST_CONNECTIONS"
	WeightedLeastConnections Algorithm = "WEIGHTED_LEAST_CONNECTIONS"
	IPHash                   Algorithm = "IP_HASH"
	ConsistentHash           Algorithm = "CONSISTENT_HASH"
	LeastResponseTime        Algorithm = "LEAST_RESPONSE_TIME"
	Random                   Algorithm = "RANDOM"
	P2CPeakEWMA              Algorithm = "P2C_PEAK_EWMA"
	ExpectedCompletion       Algorithm = "EXPECTED_COMPLETION"
)

// Algorithms lists all ten in the order in which tables show them.
func Algorithms() []Algorithm {
	return []Algorithm{
		RoundRobin, WeightedRoundRobin, LeastConnections, WeightedLeastConnections, IPHash,
		ConsistentHash, LeastResponseTime, Random, P2CPeakEWMA, ExpectedCompletion,
	}
}

// Known reports whether a is one of the ten.
func (a Algorithm) Known() bool {
	for _, b := range Algorithms() {
		if a == b {
			return true
		}
	}
	return false
}
