package loadtest

import "slices"

// touched are the backends that the scenario's events change, each once, sorted.
func (s Scenario) touched() []string {
	var ids []string
	for _, e := range s.Shape.Events {
		ids = append(ids, e.Backend)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
