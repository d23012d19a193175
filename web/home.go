package web

import (
	"context"
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
	"retune/proxy/steering"
)

const recentCycles = 8

// homeView is what the overview shows.
type homeView struct {
	Proxy   proxyView
	Pointer orchestrator.Pointer // zero before the first version
	Running *liveView
	Recent  []orchestrator.Cycle
	Choices Choices
	// Outlooks is what a cycle of each profile can tell here.
	Outlooks []orchestrator.Outlook
}

// proxyView is what the proxy says of itself, or why it can't be asked.
type proxyView struct {
	steering.Status
	Known bool
	Why   string
}

func (s *Server) home(c echo.Context) error {
	v, err := s.homeView(c.Request().Context())
	if err != nil {
		return err
	}
	if c.Request().Header.Get("HX-Request") == "" && v.startable() { // what is asked for anew every few seconds shows none
		v.Outlooks = s.profileOutlooks(c.Request().Context())
	}
	return s.render(c, homePage(s.page("Overview", "Overview"), v))
}

func (s *Server) homeView(ctx context.Context) (v homeView, err error) {
	v = homeView{Choices: s.Choices, Proxy: s.proxyStatus(ctx)}
	if v.Pointer, err = s.History.Pointer(ctx); err != nil && !errors.Is(err, orchestrator.ErrNotFound) {
		return v, err
	}
	if v.Recent, err = s.History.Cycles(ctx, recentCycles, 0); err != nil {
		return v, err
	}
	for _, cy := range v.Recent {
		if !cy.Status.Ended() {
			live, err := s.liveView(ctx, cy)
			v.Running = &live
			return v, err
		}
	}
	return v, nil
}

// startable reports whether a cycle can be started now.
func (v homeView) startable() bool { return v.Running == nil || v.stepsAside() }

// stepsAside reports whether what runs is the calibration that starts by itself, which gives way to anybody's cycle.
func (v homeView) stepsAside() bool {
	return v.Running != nil && v.Running.Cycle.BySelf()
}

// proxyStatus asks the proxy; a proxy that doesn't answer is a state to show, not an error.
func (s *Server) proxyStatus(ctx context.Context) proxyView {
	if s.Proxy == nil {
		return proxyView{Why: "No proxy is connected to this orchestrator."}
	}
	st, err := s.Proxy(ctx)
	if err != nil {
		return proxyView{Why: err.Error() + ". Retrying."}
	}
	return proxyView{Status: st, Known: true}
}

func (v proxyView) inFlight() int64 {
	var n int64
	for _, b := range v.Backends {
		n += b.InFlight
	}
	return n
}

// latency is the average over the backends that answer now, weighted by what each has served.
func (v proxyView) latency() string {
	var sum, requests float64
	for _, b := range v.Backends {
		if b.AvgLatencyMS > 0 {
			sum += b.AvgLatencyMS * float64(b.Requests)
			requests += float64(b.Requests)
		}
	}
	if requests == 0 {
		return none
	}
	return figure(sum/requests) + " ms"
}

func madeOf(r orchestrator.Request) string {
	var parts []string
	for _, p := range []string{string(r.Profile), r.Generator, string(r.Driver)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, " · ")
}

func took(c orchestrator.Cycle) string {
	if c.Started.IsZero() {
		return none
	}
	return between(c.Started, c.Finished)
}
