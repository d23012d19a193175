// Package prompts holds the texts that are sent to a model. They are files, so that a change of one is a change
// that people can review; the SHA-256 of all that a model was told stands with each version that came of it.
package prompts

import _ "embed"

var (
	// Rules is the system prompt of the generator `openai`: its role, what the states, algorithms and thresholds
	// mean, and that the answer is JSON alone.
	//
	//go:embed rules.md
	Rules string
	// Repair opens a repair turn; the exact faults of the answer follow it, one a line.
	//
	//go:embed repair.md
	Repair string
	// Another opens the question for one more rule set; what was proposed before follows it, as JSON.
	//
	//go:embed another.md
	Another string
	// Patterns is the system prompt of the classifier: what the states mean when a whole series is known.
	//
	//go:embed patterns.md
	Patterns string
)
