package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// tickTime is how exactly ejections and slow starts keep their time.
const tickTime = 250 * time.Millisecond

// prober asks one backend whether it lives.
type prober func(ctx context.Context, s *server) error

// httpProber asks by HTTP, on a new connection each time: a backend that no longer accepts any is down.
func httpProber(c HealthConfig) prober {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		Timeout:       c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, s *server) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL().JoinPath(c.Path).String(), nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "retune-health")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode >= 500 {
			return fmt.Errorf("GET %s: %s", c.Path, res.Status)
		}
		return nil
	}
}

// run checks the backends until ctx is done, and waits for the checks under way.
func (p *pool) run(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		for _, s := range p.tick(time.Now()) {
			probes.Go(func() {
				err := p.probe(ctx, s)
				if ctx.Err() == nil {
					p.probed(s, err, time.Now())
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
