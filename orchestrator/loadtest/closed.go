package loadtest

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// closedLoop runs users that each wait for the answer and think before the next request, until the measured load's
// end. It calls begin as openLoop does. For comparison with published tables only: when the target stalls, so do its
// users, and the stall hardly shows.
func (g *generator) closedLoop(ctx context.Context, begin func(time.Time)) {
	at := time.Now().Add(g.warm())
	end := at.Add(time.Duration(g.Shape.Closed.Duration))
	begin(at)
	client := g.client()
	think := time.Duration(g.Shape.Closed.Think)
	var n atomic.Int64
	var users sync.WaitGroup
	for u := range g.Shape.Closed.Users {
		first := rand.New(rand.NewPCG(g.Seed, uint64(u))).Int64N(int64(think) + 1) // spread over the first think time
		users.Go(func() {
			for more := sleep(ctx, time.Duration(first)); more && time.Now().Before(end); more = sleep(ctx, think) {
				g.once(ctx, client, at, g.address(n.Add(1)-1))
			}
		})
	}
	users.Wait()
}

// once makes one request of a closed loop; its latency counts from when it was sent.
func (g *generator) once(ctx context.Context, c *http.Client, begin time.Time, address string) {
	g.underWay.Add(1)
	defer g.underWay.Add(-1)
	start := time.Now()
	code, err := get(ctx, c, g.target, address)
	if ctx.Err() != nil {
		return // cancelled under way: neither good nor bad
	}
	said, phase := "", "main"
	if err != nil {
		code, said = 0, err.Error()
	}
	if start.Before(begin) {
		phase = "warm"
	}
	g.out.request(phase, start, time.Now(), code, said)
}

// get makes one request and reads its answer to the end.
func get(ctx context.Context, c *http.Client, url, address string) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Forwarded-For", address)
	res, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
