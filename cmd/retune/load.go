package main

import (
	"context"
	"errors"
)

type loadCmd struct{}

// Run is filled in by its part.
func (c *loadCmd) Run(ctx context.Context, o *output) error { return errors.New("being built") }
