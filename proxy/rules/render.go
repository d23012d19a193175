package rules

// Render writes the canonical form of a rule set.
func Render(r RuleSet) []byte { return nil }
