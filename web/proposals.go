package web

import (
	"fmt"
	"strings"

	"retune/orchestrator"
	"retune/orchestrator/verdict"
)

// proposalName is how pages call a participant of a tournament.
func proposalName(n int) string { return fmt.Sprintf("proposal %d", n) }

// changesOf is what a proposal changes, in words.
func changesOf(p orchestrator.Proposal) string {
	if len(p.Changes) == 0 {
		return "nothing"
	}
	return strings.Join(p.Changes, "; ")
}

// screenedAny reports whether a screening took place.
func screenedAny(all []orchestrator.Proposal) bool {
	for _, p := range all {
		if p.Screening != nil {
			return true
		}
	}
	return false
}

// beside is a proposal's figure in a screening, and the champion's.
func beside(m verdict.Metric, champion, proposal float64) string {
	return measured(m, champion) + " → " + measured(m, proposal)
}
