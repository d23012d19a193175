package loadtest

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"time"
)

// What a shape may ask for at most, so that a slip of the pen can't take a machine down.
const (
	maxRate     = 100_000
	maxDuration = 24 * time.Hour
	maxPlanned  = 20_000_000
	maxClients  = 1 << 22
	maxUsers    = 10_000
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// faults collects what is wrong with an input, each with its place.
type faults []error

func (f *faults) unless(ok bool, format string, a ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, a...))
	}
}

// Validate names every fault of the shape, one per line; nil when there is none.
func (s Shape) Validate() error {
	var f faults
	f.unless(nameForm.MatchString(s.Name), "name: %q must be lower-case letters, digits, - and _, at most 63", s.Name)
	f.unless(s.Description != "", "description: missing; one sentence")
	f.unless(s.Clients >= 1 && s.Clients <= maxClients, "clients: %d must be from 1 to %d", s.Clients, maxClients)
	f.unless(s.Path == "" || s.Path[0] == '/', "path: %q must begin with /", s.Path)
	f.unless((len(s.Phases) > 0) != (s.Closed != nil), "phases: give either phases or closed")
	s.checkPhases(&f)
	s.checkClosed(&f)
	f.unless(len(s.Events) <= maxMarks, "events: %d; at most %d", len(s.Events), maxMarks)
	for i, e := range s.Events {
		s.checkEvent(&f, fmt.Sprintf("events[%d]", i), e)
	}
	return errors.Join(f...)
}

// checkPhases checks each phase and, if all is well so far, what they come to.
func (s Shape) checkPhases(f *faults) {
	for i, p := range s.Phases {
		at := fmt.Sprintf("phases[%d]", i)
		f.unless(p.Name != "", "%s.name: missing", at)
		f.unless(p.Duration > 0 && time.Duration(p.Duration) <= maxDuration, "%s.duration: %s must be over 0 and at most %s", at, time.Duration(p.Duration), maxDuration)
		f.unless(wholeRate(p.From), "%s.from: %v must be a whole number of requests per second from 0 to %d (k6 takes no other)", at, p.From, maxRate)
		f.unless(wholeRate(p.To), "%s.to: %v must be a whole number of requests per second from 0 to %d (k6 takes no other)", at, p.To, maxRate)
	}
	if len(*f) == 0 && s.Closed == nil {
		f.unless(s.Peak() > 0, "phases: every rate is 0")
		f.unless(s.Duration() <= maxDuration, "phases: %s in all; at most %s", s.Duration(), maxDuration)
		f.unless(s.Planned() <= maxPlanned, "phases: %d requests in all; at most %d", s.Planned(), maxPlanned)
	}
}

// wholeRate says whether r is a rate that both drivers can make.
func wholeRate(r float64) bool { return r >= 0 && r <= maxRate && r == math.Trunc(r) }

// checkClosed checks the closed loop, where there is one.
func (s Shape) checkClosed(f *faults) {
	c := s.Closed
	if c == nil {
		return
	}
	f.unless(c.Users >= 1 && c.Users <= maxUsers, "closed.users: %d must be from 1 to %d", c.Users, maxUsers)
	f.unless(c.Think >= 0, "closed.think: %s must not be negative", time.Duration(c.Think))
	f.unless(c.Duration > 0 && time.Duration(c.Duration) <= maxDuration, "closed.duration: %s must be over 0 and at most %s", time.Duration(c.Duration), maxDuration)
}

// checkEvent checks an event, which stands at the given place of the file.
func (s Shape) checkEvent(f *faults, at string, e Event) {
	f.unless(e.Backend != "", "%s.backend: missing", at)
	f.unless(e.At >= 0 && time.Duration(e.At) <= s.Duration(), "%s.at: %s must lie within the load's %s", at, time.Duration(e.At), s.Duration())
	switch e.Action {
	case ActionFail, ActionRevive:
		f.unless(e.Value == 0, "%s.value: %v, but %s takes none", at, e.Value, e.Action)
	case ActionSlowdown:
		f.unless(e.Value >= 1 && e.Value <= 1000, "%s.value: %v must be a factor from 1 to 1000", at, e.Value)
	case ActionErrorRate:
		f.unless(e.Value >= 0 && e.Value <= 1, "%s.value: %v must be a share from 0 to 1", at, e.Value)
	default:
		f.unless(false, "%s.action: %q must be fail, revive, slowdown or error_rate", at, e.Action)
	}
}

// validate names what keeps the scenario from being run.
func (s Scenario) validate() error {
	var f faults
	if s.Script == "" {
		if err := s.Shape.Validate(); err != nil {
			f = append(f, fmt.Errorf("shape %s: %w", s.Shape.Name, err))
		}
	}
	f.unless(isHTTP(s.Target), "target: %q must be an http or https URL", s.Target)
	f.unless(s.Warm >= 0, "warm: %s must not be negative", s.Warm)
	f.unless(s.Timeout >= 0, "timeout: %s must not be negative", s.Timeout)
	for _, id := range s.touched() {
		f.unless(isHTTP(s.Controls[id]), "events: backend %s has no control URL, so it can't be failed or slowed", id)
	}
	return errors.Join(f...)
}

func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
