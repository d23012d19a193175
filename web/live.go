package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/tmaxmax/go-sse"

	"retune/orchestrator"
)

const (
	followEvery  = time.Second      // how often the store is asked; progress is saved there about as often
	keepAlive    = 15 * time.Second // a comment is sent when nothing has changed for so long
	eventTimeout = 10 * time.Second // for a reader to take one event
)

// liveView is how a cycle stands.
type liveView struct {
	Cycle orchestrator.Cycle  `json:"cycle"`
	Live  *orchestrator.Live  `json:"live"` // nil before the first progress
	Steps []orchestrator.Step `json:"steps"`
}

func (s *Server) liveView(ctx context.Context, c orchestrator.Cycle) (liveView, error) {
	v := liveView{Cycle: withoutCassette(c)}
	live, err := s.History.Live(ctx, c.ID)
	if err == nil {
		v.Live = &live
	} else if !errors.Is(err, orchestrator.ErrNotFound) {
		return v, err
	}
	v.Steps, err = s.History.Steps(ctx, c.ID)
	return v, err
}

// cycleEvents streams the progress of a cycle as HTML fragments for its page.
func (s *Server) cycleEvents(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	cy, err := s.History.Cycle(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.follow(c.Request().Context(), c.Response(), cy, func(v liveView) (string, error) {
		var b strings.Builder
		err := liveFragment(v).Render(c.Request().Context(), &b)
		return b.String(), err
	})
}

// follow sends a `live` event whenever what encode makes of the cycle has changed, and a last one named `done` when
// the cycle has ended. It returns when the cycle ends, the reader leaves or the server stops. Each event holds the
// whole state, so a reader that comes back has missed nothing.
func (s *Server) follow(ctx context.Context, w http.ResponseWriter, cy orchestrator.Cycle, encode func(liveView) (string, error)) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy in front must not hold events back
	out := eventWriter{w: w, control: http.NewResponseController(w)}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		v, err := s.liveView(ctx, cy)
		if err == nil {
			err = out.live(v, encode)
		}
		if err != nil || cy.Status.Ended() {
			return s.endStream(err, &out, cy)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return nil
		case <-tick.C:
		}
		if cy, err = s.History.Cycle(ctx, cy.ID); err != nil {
			return s.endStream(err, &out, cy)
		}
	}
}

// endStream says goodbye. After the first byte no status can be sent any more: an error is for the log, and the
// reader connects again by itself.
func (s *Server) endStream(err error, out *eventWriter, cy orchestrator.Cycle) error {
	if err == nil {
		err = out.send("done", string(cy.Status))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.Log.Info("a live stream ended early", "cycle", cy.ID, "err", err)
	}
	return nil
}

// eventWriter writes server-sent events, each with a deadline of its own.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string    // data of the last live event
	sent    time.Time // of anything
	count   int
}

func (e *eventWriter) live(v liveView, encode func(liveView) (string, error)) error {
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("encoding the progress of cycle %d: %w", v.Cycle.ID, err)
	}
	if data != e.last {
		e.last = data
		return e.send("live", data)
	}
	if time.Since(e.sent) < keepAlive {
		return nil
	}
	var m sse.Message
	m.AppendComment("still here")
	return e.write(&m)
}

func (e *eventWriter) send(name, data string) error {
	e.count++
	m := sse.Message{ID: sse.ID(strconv.Itoa(e.count)), Type: sse.Type(name)}
	m.AppendData(data)
	return e.write(&m)
}

func (e *eventWriter) write(m *sse.Message) error {
	e.sent = time.Now()
	if err := e.control.SetWriteDeadline(e.sent.Add(eventTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := m.WriteTo(e.w); err != nil {
		return err
	}
	return e.control.Flush()
}

// tuneSteps are the steps of a tuning cycle, in their order.
var tuneSteps = []orchestrator.Status{
	orchestrator.Baseline, orchestrator.Generating, orchestrator.Applying, orchestrator.Settling, orchestrator.Verifying,
}

// stepView is one step of the stepper.
type stepView struct {
	Name  string
	State string // done | current | next | stopped
	Took  string
}

// stepper is the planned steps with how far the cycle is. A calibration has no plan to show: its steps are
// those that were made.
func (v liveView) stepper() []stepView {
	plan := tuneSteps
	if v.Cycle.Kind == orchestrator.Calibrate {
		plan = nil
		for _, st := range v.Steps {
			if !st.Name.Ended() && st.Name != orchestrator.Queued && !slices.Contains(plan, st.Name) {
				plan = append(plan, st.Name)
			}
		}
	}
	var out []stepView
	for _, name := range plan {
		out = append(out, v.step(name))
	}
	end := stepView{Name: "verdict", State: "next"}
	if v.Cycle.Status.Ended() {
		end = stepView{Name: words(v.Cycle.Status), State: "done"}
		if t := tone(string(v.Cycle.Status)); t == "bad" || t == "warn" {
			end.State = "stopped"
		}
	}
	return append(out, end)
}

func (v liveView) step(name orchestrator.Status) stepView {
	out := stepView{Name: string(name), State: "next"}
	var took time.Duration
	for _, st := range v.Steps {
		switch {
		case st.Name != name:
		case !st.Finished.IsZero():
			out.State = "done"
			took += st.Finished.Sub(st.Started)
		case v.Cycle.Status.Ended():
			out.State = "stopped"
		default:
			out.State = "current"
		}
	}
	if took > 0 {
		out.Took = span(took)
	}
	return out
}
