package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Control is what a scenario can turn while the backend runs, at /control on the same listener.
type Control struct {
	// Down closes the connection of each ordinary request and health check without an answer, as near to a
	// dead process as the proxy can see. /control stays up.
	Down bool `json:"down"`
	// ErrorRate is the share of requests that end in 500, 0 to 1.
	ErrorRate float64 `json:"error_rate"`
	// Slowdown multiplies the service time of requests that come from now on; over 0, 1 is normal.
	Slowdown float64 `json:"slowdown"`
	// Stall stops answers in the middle of their body, until it ends. Health checks are answered as ever.
	Stall bool `json:"stall"`
}

// Control gives the present setting.
func (s *Server) Control() Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.control
}

// SetControl changes it; an error says what is out of range, and changes nothing.
func (s *Server) SetControl(c Control) error {
	return s.change(func(old *Control) { *old = c })
}

// change lets f alter the setting, and keeps that if it is valid.
func (s *Server) change(f func(*Control)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.control
	f(&c)
	if err := c.validate(); err != nil {
		return err
	}
	switch {
	case c.Down:
		s.kill()
	case s.control.Down:
		s.life, s.kill = context.WithCancel(context.Background())
	}
	switch {
	case c.Stall && !s.control.Stall:
		s.flow = make(chan struct{})
	case !c.Stall && s.control.Stall:
		close(s.flow)
		s.flow = nil
	}
	s.control = c
	return nil
}

func (c Control) validate() error {
	switch {
	case !(c.ErrorRate >= 0 && c.ErrorRate <= 1):
		return fmt.Errorf("error_rate %v: want 0 to 1", c.ErrorRate)
	case !(c.Slowdown > 0 && c.Slowdown <= 1000):
		return fmt.Errorf("slowdown %v: want more than 0 and at most 1000", c.Slowdown)
	}
	return nil
}

func (s *Server) showControl(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, "application/json", http.StatusOK, s.Control())
}

// putControl changes the fields that the body names and leaves the others.
func (s *Server) putControl(w http.ResponseWriter, r *http.Request) {
	p, err := readPatch(http.MaxBytesReader(w, r.Body, 4096))
	if err == nil {
		err = s.change(p.apply)
	}
	if err != nil {
		writeJSON(w, "application/problem+json", http.StatusBadRequest, map[string]any{
			"title": "Bad control", "status": http.StatusBadRequest,
			"detail": err.Error() + `; want JSON like {"down": false, "error_rate": 0.1, "slowdown": 3}`,
		})
		return
	}
	s.showControl(w, r)
}

// patch is a PUT's body; a field that is absent stays nil.
type patch struct {
	Down      *bool    `json:"down"`
	ErrorRate *float64 `json:"error_rate"`
	Slowdown  *float64 `json:"slowdown"`
	Stall     *bool    `json:"stall"`
}

func (p *patch) apply(c *Control) {
	if p.Down != nil {
		c.Down = *p.Down
	}
	if p.ErrorRate != nil {
		c.ErrorRate = *p.ErrorRate
	}
	if p.Slowdown != nil {
		c.Slowdown = *p.Slowdown
	}
	if p.Stall != nil {
		c.Stall = *p.Stall
	}
}

// readPatch reads exactly one JSON object without unknown fields.
func readPatch(r io.Reader) (*patch, error) {
	var p *patch // so that a bare null is seen
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || p == nil {
		return nil, errors.New("the body is not one JSON object")
	}
	return p, nil
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone otherwise
}
