package main

import (
	"context"
	"errors"
)

type backendsCmd struct{}

// Run is filled in by its part.
func (c *backendsCmd) Run(ctx context.Context, o *output) error { return errors.New("being built") }
