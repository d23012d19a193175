package main

// rulesCmd is everything about rule files and rule versions; each sub-command stands in a file of its own.
type rulesCmd struct {
	Validate rulesValidateCmd `cmd:"" help:"Check a rule file; exit 2 with every fault as FILE:line:column: text."`
}
