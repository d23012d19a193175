package rules

// Default is version 1: what a new installation starts with.
func Default() RuleSet { return RuleSet{} }

// Safe is the built-in fallback of a proxy that has no usable rules: ROUND_ROBIN everywhere.
func Safe() RuleSet { return RuleSet{} }

// Same reports whether a and b make a proxy behave the same: version, parent, origin and reasons aside.
func Same(a, b RuleSet) bool { return false }
