package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// controlTime bounds one call of a control endpoint.
const controlTime = 3 * time.Second

// controlClient talks to control endpoints on connections of its own; no proxy of the environment lies between.
var controlClient = &http.Client{Timeout: controlTime, Transport: &http.Transport{DisableKeepAlives: true}}

const reviveBody = `{"down":false,"error_rate":0,"slowdown":1}`

// control is the body that makes an event so.
func (e Event) control() string {
	value := strconv.FormatFloat(e.Value, 'f', -1, 64)
	switch e.Action {
	case ActionFail:
		return `{"down":true}`
	case ActionSlowdown:
		return `{"slowdown":` + value + `}`
	case ActionErrorRate:
		return `{"error_rate":` + value + `}`
	}
	return reviveBody
}

// detail is what a mark says of the event beside its action.
func (e Event) detail() string {
	if e.Value == 0 {
		return e.Backend
	}
	return e.Backend + " " + strconv.FormatFloat(e.Value, 'f', -1, 64)
}

// Revive puts backends back to full health, whatever an event did to them. controls is by backend id. All are tried;
// the error names each that could not be reached.
func Revive(ctx context.Context, controls map[string]string) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for id, url := range controls {
		wait.Go(func() {
			if err := putControl(ctx, url, reviveBody); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("backend %s could not be revived: %w", id, err))
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// putControl puts a body to a control endpoint.
func putControl(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := controlClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	if res.StatusCode >= 300 {
		return fmt.Errorf("its control endpoint answered %s", res.Status)
	}
	return nil
}

// touched are the backends that the scenario's events change, each once, sorted.
func (s Scenario) touched() []string {
	var ids []string
	for _, e := range s.Shape.Events {
		ids = append(ids, e.Backend)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// marks is how many events have to show in the run's stream. A script of the user's own marks what it likes.
func (s Scenario) marks() int {
	if s.Script != "" {
		return 0
	}
	return len(s.Shape.Events)
}

// touchedControls are the control endpoints of the touched backends. A script of the user's own may touch any.
func (s Scenario) touchedControls() map[string]string {
	if s.Script != "" {
		return s.Controls
	}
	controls := map[string]string{}
	for _, id := range s.touched() {
		controls[id] = s.Controls[id]
	}
	return controls
}
