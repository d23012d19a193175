package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"retune/proxy/demo"
)

// faultAnswer is one request as its client saw it.
type faultAnswer struct {
	due, begun, end time.Time // when it was to begin, when it did, when it was over
	post, ok        bool      // ok: 200 and a whole body
	backend         string    // whose answer it was; "": nobody's
}

// faultLoad is an open load on one proxy: requests begin when they are due, whatever became of those before.
type faultLoad struct {
	url    string
	client *http.Client

	mu  sync.Mutex // guards all
	all []faultAnswer
}

// patience is how long a client waits for a whole answer: longer than the proxy does.
const patience = 20 * time.Second

func newFaultLoad(addr string) *faultLoad {
	return &faultLoad{url: "http://" + addr + "/", client: &http.Client{
		Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
	}}
}

// run makes the load until ctx ends, and waits for the answers that are still due.
func (l *faultLoad) run(ctx context.Context) {
	var under sync.WaitGroup
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * time.Second / faultRate)
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			under.Wait()
			l.client.CloseIdleConnections()
			return
		case <-timer.C:
		}
		under.Go(func() { l.ask(context.WithoutCancel(ctx), n, due) })
	}
}

// ask makes the n-th request and notes its end.
func (l *faultLoad) ask(ctx context.Context, n int, due time.Time) {
	a := faultAnswer{due: due, begun: time.Now(), post: n%postEvery == 0}
	method, body := http.MethodGet, ""
	if a.post {
		method, body = http.MethodPost, strings.Repeat("x", 512)
	}
	req, err := http.NewRequestWithContext(ctx, method, l.url, strings.NewReader(body))
	if err == nil {
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255))
		var res *http.Response
		if res, err = l.client.Do(req); err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			a.ok = err == nil && res.StatusCode == http.StatusOK
			a.backend = res.Header.Get(demo.HeaderBackend)
		}
	}
	a.end = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

// answers is every request that has ended so far.
func (l *faultLoad) answers() []faultAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]faultAnswer(nil), l.all...)
}
