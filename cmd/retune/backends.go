package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"retune/proxy/demo"
)

// backendsCmd runs the demo backends. The i-th mean belongs to the i-th address.
type backendsCmd struct {
	Listen      []string        `help:"Addresses, one per backend." default:"127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003,127.0.0.1:5004"`
	Name        string          `help:"What they are called: this, and a number from 1." default:"server"`
	Mean        []time.Duration `help:"Mean service times, one per address." default:"50ms,150ms,300ms,500ms"`
	Sigma       float64         `help:"Spread of the lognormal service times; 0 makes them fixed." default:"0.3"`
	Concurrency int             `help:"Requests that each works on at once, the rest queue; 0 for no limit." default:"16"`
	Queue       int             `help:"Requests that may queue at each; more get 503." default:"1024"`
	Seed        uint64          `help:"Makes service times and simulated errors repeatable; 0 for different ones each time." default:"0"`
}

// Run serves until ctx ends. Nothing listens before all of it is known to be right.
func (c *backendsCmd) Run(ctx context.Context, o *output) error {
	servers, err := c.servers()
	if err != nil {
		return usage("%w", err)
	}
	listeners, err := listenAll(c.Listen)
	if err != nil {
		return unavailable(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, l := range listeners {
		fmt.Fprintf(o.err, "backend %s-%d ready on http://%s: mean %v, sigma %v, concurrency %d\n",
			c.Name, i+1, l.Addr(), c.Mean[i], c.Sigma, c.Concurrency)
		g.Go(func() error { return servers[i].Serve(ctx, l) })
	}
	return g.Wait()
}

// servers makes one per address.
func (c *backendsCmd) servers() ([]*demo.Server, error) {
	if len(c.Listen) != len(c.Mean) {
		return nil, fmt.Errorf("--listen has %d addresses but --mean has %d times: want one mean per address", len(c.Listen), len(c.Mean))
	}
	var out []*demo.Server
	for i, mean := range c.Mean {
		config := demo.Config{
			Name: fmt.Sprintf("%s-%d", c.Name, i+1), Mean: mean, Sigma: c.Sigma, Concurrency: c.Concurrency, Queue: c.Queue,
		}
		if c.Seed != 0 {
			config.Seed = c.Seed + uint64(i)
		}
		s, err := demo.New(config)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// listenAll listens on every address or on none.
func listenAll(addresses []string) (out []net.Listener, err error) {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			for _, l := range out {
				l.Close()
			}
			return nil, fmt.Errorf("backends can't listen on %s (%w): stop what holds it, or choose others with --listen", a, err)
		}
		out = append(out, l)
	}
	return out, nil
}
