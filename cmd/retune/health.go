package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// healthCmd is the health check of container images, which hold nothing but this binary.
type healthCmd struct {
	URL     string        `arg:"" name:"url" help:"What to ask, such as http://127.0.0.1:9901/readyz."`
	Timeout time.Duration `default:"3s" help:"How long to wait for the answer."`
}

// Run fails unless the answer's status is 2xx.
func (c *healthCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return usage("asking for health: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return unavailable(fmt.Errorf("asking for health: %w", err))
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", c.URL, resp.Status)
	}
	return nil
}
