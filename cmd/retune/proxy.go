package main

import (
	"context"
	"errors"
)

type proxyCmd struct{}

// Run is filled in by its part.
func (c *proxyCmd) Run(ctx context.Context, o *output) error { return errors.New("being built") }
