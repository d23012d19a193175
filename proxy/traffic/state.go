package traffic

// State is what the traffic does, by its name in rule files, the API and the UI.
type State string

// The five traffic states, in the order in which they are checked: the first that holds wins.
const (
	OverloadedNode  State = "OVERLOADED_NODE"
	LowTraffic      State = "LOW_TRAFFIC"
	Spike           State = "SPIKE"
	GradualIncrease State = "GRADUAL_INCREASE"
	HighStable      State = "HIGH_STABLE"
)

// States lists the five in the order in which rule files and tables show them.
func States() []State {
	return []State{LowTraffic, HighStable, GradualIncrease, Spike, OverloadedNode}
}

// Known reports whether s is one of the five.
func (s State) Known() bool {
	for _, t := range States() {
		if s == t {
			return true
		}
	}
	return false
}
