package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"retune/proxy/rules"
)

type rulesValidateCmd struct {
	File string `arg:"" help:"Rule file, or - for stdin."`
}

// Run prints every fault to o.err and exits 2, or says that the file is valid, with what is probably not meant.
func (c *rulesValidateCmd) Run(o *output) error {
	b, err := readRuleFile(c.File)
	if err != nil {
		return usage("reading the rule file: %w", err)
	}
	set, err := rules.Parse(c.File, b)
	var faults *rules.Faults
	if errors.As(err, &faults) {
		for _, line := range faults.Lines() {
			fmt.Fprintln(o.err, line)
		}
		return &exitError{code: exitUsage}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(o.out, "%s: valid, version %d\n", c.File, set.Version)
	for _, f := range rules.Lint(set) {
		fmt.Fprintf(o.out, "%s: warning: %s\n", c.File, f)
	}
	return nil
}

// readRuleFile reads as much as Parse needs to refuse a file that is too large.
func readRuleFile(name string) ([]byte, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	return io.ReadAll(io.LimitReader(f, rules.MaxSize+1))
}

// checkedRules reads a rule file and refuses an invalid one with every fault by its place in the file.
func checkedRules(name string) ([]byte, error) {
	b, err := readRuleFile(name)
	if err != nil {
		return nil, usage("reading the rule file: %w", err)
	}
	if _, err := rules.Parse(name, b); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return b, nil
}
