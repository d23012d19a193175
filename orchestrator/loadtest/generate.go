package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// maxUnderWay bounds the requests that are under way at once; what falls due beyond it is dropped, and counted.
const maxUnderWay = 20_000

// Generate runs the scenario's load and writes the stream to w: the built-in driver's child process is this and
// nothing else. It returns when the load is done, ctx ends or w can't be written any more; in all three cases it has
// revived the backends that its events touch. Requests under way when ctx ends are abandoned: the process that called
// it is to end.
func Generate(ctx context.Context, s Scenario, w io.Writer) error {
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	if err := s.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := newPoints(w, func(err error) { cancel(fmt.Errorf("writing the stream: %w", err)) })
	g := &generator{Scenario: s, out: out, most: mostUnderWay(s), target: strings.TrimSuffix(s.Target, "/") + cmp.Or(s.Shape.Path, "/")}
	err := g.run(ctx)
	return errors.Join(err, Revive(context.WithoutCancel(ctx), s.touchedControls()), out.close())
}

// generator is one run of the built-in driver.
type generator struct {
	Scenario
	out      *points
	target   string
	most     int64 // requests that may be under way at once; what falls due beyond it is dropped
	underWay atomic.Int64
}

// run makes the load, with events and gauges beside it; nil when it was made to its end.
func (g *generator) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	begun := make(chan time.Time, 1)
	begin := func(at time.Time) { g.out.begin(at); begun <- at }
	var events, gauges sync.WaitGroup
	events.Go(func() { g.events(ctx, begun) })
	gauges.Go(func() { g.gauges(ctx) })
	if g.Shape.Closed != nil {
		g.closedLoop(ctx, begin)
	} else {
		g.openLoop(ctx, begin)
	}
	events.Wait() // the last request may be answered before the last event is due
	err := context.Cause(ctx)
	stop()
	gauges.Wait()
	return err
}

// warm is how long the warm-up really is: none at a rate of 0.
func (g *generator) warm() time.Duration {
	if g.Shape.Closed == nil && g.Shape.Phases[0].From == 0 {
		return 0
	}
	return g.Warm
}

// openLoop starts requests when they are due, warm-up and measured load in one. It calls begin once, with the instant at
// which the measured load begins.
func (g *generator) openLoop(ctx context.Context, begin func(time.Time)) {
	phases := slices.Clone(g.Shape.Phases)
	if warm := g.warm(); warm > 0 {
		phases = append([]Phase{{Duration: Duration(warm), From: phases[0].From, To: phases[0].From}}, phases...)
	}
	p := &pacer{timeline: newTimeline(phases), limit: g.most}
	p.started = func(began time.Time) { begin(began.Add(g.warm())) }
	p.dropped = func(due time.Duration) { g.out.dropped(p.at(due), g.phase(due)) }
	attacker := vegeta.NewAttacker(vegeta.Client(g.client()), vegeta.MaxBody(0))
	defer attacker.Stop()
	var n atomic.Int64
	results := attacker.Attack(func(t *vegeta.Target) error {
		t.Method, t.URL = http.MethodGet, g.target
		t.Header = http.Header{"X-Forwarded-For": {g.address(n.Add(1) - 1)}}
		return nil
	}, p, 0, "")
	for {
		select {
		case r, ok := <-results:
			if !ok {
				return
			}
			due, underWay := p.end(r.Seq)
			g.underWay.Store(underWay)
			g.out.request(g.phase(due), p.at(due), r.Timestamp.Add(r.Latency), int(r.Code), r.Error)
		case <-ctx.Done():
			return
		}
	}
}

// mostUnderWay is what a target that answers nothing leads to, since each request gives up after its time-out, and a
// quarter more.
func mostUnderWay(s Scenario) int64 {
	return min(maxUnderWay, max(10, int64(1.25*s.Shape.Peak()*s.Timeout.Seconds())))
}

// phase is the stream's word for an instant after the run's start.
func (g *generator) phase(due time.Duration) string {
	if due < g.warm() {
		return "warm"
	}
	return "main"
}

func (g *generator) address(n int64) string {
	return clientAddress(foldSeed(g.Seed), n, g.Shape.Clients)
}

// client keeps as many connections as there are requests under way, follows no redirect and asks no proxy of the
// environment.
func (g *generator) client() *http.Client {
	return &http.Client{
		Timeout:       g.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: plain{&http.Transport{
			DialContext:         (&net.Dialer{Timeout: g.Timeout, KeepAlive: 30 * time.Second}).DialContext,
			MaxIdleConnsPerHost: maxUnderWay,
			DisableCompression:  true,
		}},
	}
}

// plain sends requests without the headers that vegeta numbers them by: they would make each request another to a
// proxy that logs or hashes headers.
type plain struct{ *http.Transport }

func (t plain) RoundTrip(r *http.Request) (*http.Response, error) {
	delete(r.Header, "X-Vegeta-Seq")
	return t.Transport.RoundTrip(r)
}

// events makes the timeline's events happen, each at its time after the measured load's begin, by the same clock.
func (g *generator) events(ctx context.Context, begun <-chan time.Time) {
	var begin time.Time
	select {
	case begin = <-begun:
	case <-ctx.Done():
		return
	}
	events := slices.Clone(g.Shape.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		if !sleep(ctx, time.Until(begin.Add(time.Duration(e.At)))) {
			return
		}
		err := putControl(ctx, g.Controls[e.Backend], e.control())
		detail := e.detail()
		if err != nil {
			detail = fmt.Sprintf("%s (failed: %v)", detail, err)
		}
		g.out.event(begin.Add(time.Since(begin)), e.Action, detail, err != nil)
	}
}

// gauges writes how many requests are under way, once a second: a sign of life.
func (g *generator) gauges(ctx context.Context) {
	for sleep(ctx, time.Second) {
		g.out.gauge("vus", g.underWay.Load())
	}
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
