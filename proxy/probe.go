package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// tickTime is how exactly ejections and slow starts keep their time.
const tickTime = 250 * time.Millisecond

// checkup is an active check that is due.
type checkup struct {
	server  *server
	timeout time.Duration
	found   func(s *server, err error, now time.Time) // takes its outcome
}

// errSick is the outcome of a check that was answered: not the answer that it should be, but a sign of life.
var errSick = errors.New("the backend says that it is not well")

// prober asks one backend whether it lives.
type prober func(ctx context.Context, s *server) error

// httpProber asks by HTTP, on a new connection each time: a backend that no longer accepts any is down.
func httpProber(c HealthConfig) prober {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
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
			return fmt.Errorf("GET %s: %w: %s", c.Path, errSick, res.Status)
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
		for _, c := range p.tick(time.Now()) {
			probes.Go(func() {
				bounded, cancel := context.WithTimeout(ctx, c.timeout)
				defer cancel()
				err := p.probe(bounded, c.server)
				if ctx.Err() == nil {
					c.found(c.server, err, time.Now())
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
