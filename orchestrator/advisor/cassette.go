package advisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A cassette is a conversation with a model as it went over the wire, in JSON lines: one exchange per line, in
// their order, the key never among it. An answer's body is kept byte for byte. Lines that begin with # are notes.
// (go-vcr, which does the like, writes its YAML when it is stopped, matches a request by its address first, and
// leaves it to hooks to keep keys out.)

// exchange is one line of a cassette.
type exchange struct {
	RequestSHA string            `json:"request_sha256"` // of Request in canonical form: keys sorted, no white space
	Request    json.RawMessage   `json:"request"`
	Status     int               `json:"status,omitempty"`
	Header     map[string]string `json:"header,omitempty"` // of interest
	Body       string            `json:"body,omitempty"`
	Bytes      []byte            `json:"body_base64,omitempty"` // in place of Body where it is no UTF-8
	Error      string            `json:"error,omitempty"`       // why there was no answer
	Outcome    CallOutcome       `json:"outcome,omitempty"`     // likewise: timeout or http_error; empty in older cassettes
	Final      bool              `json:"final,omitempty"`       // it failed, and was not worth asking again
	At         time.Time         `json:"at"`
	LatencyNS  time.Duration     `json:"latency_ns"`
}

// MaxCassette is how many bytes a cassette has at most, to be replayed.
const MaxCassette = 1 << 20

// Cassette is a recorded conversation, to be played once.
type Cassette struct {
	// Strict refuses a request that is not the recorded one to the last byte of meaning. Otherwise what a user's turn
	// says may differ, because no two measurements are alike: all else has to be the same.
	Strict bool

	mu        sync.Mutex
	exchanges []exchange
	played    int    // how many of them were
	answered  string // which was the last, in words
}

// ReadCassette reads a cassette's text; an error names the line.
func ReadCassette(text string) (*Cassette, error) {
	if len(text) > MaxCassette {
		return nil, fmt.Errorf("a cassette of %d bytes, at most %d", len(text), MaxCassette)
	}
	c := &Cassette{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, MaxCassette+1)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		var x exchange
		if err := json.Unmarshal(line, &x); err != nil {
			return nil, fmt.Errorf("line %d of the cassette is no exchange: %w", n, err)
		}
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("line %d of the cassette: %w", n, err)
		}
		c.exchanges = append(c.exchanges, x)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the cassette: %w", err)
	}
	if len(c.exchanges) == 0 {
		return nil, errors.New("the cassette holds no exchange")
	}
	return c, nil
}

func (x exchange) check() error {
	canonical, err := canonicalJSON(x.Request)
	switch {
	case err != nil:
		return fmt.Errorf("its request is no JSON: %w", err)
	case sha(canonical) != x.RequestSHA:
		return fmt.Errorf("its request has the hash %s, not the recorded %s: it was changed since", sha(canonical), bounded(x.RequestSHA, 64))
	case x.Error == "" && (x.Status < 200 || x.Status > 599):
		return fmt.Errorf("status %d: want 200 to 599, or an error", x.Status)
	case x.Outcome != "" && x.Outcome != CallTimeout && x.Outcome != CallHTTPError:
		return fmt.Errorf("outcome %q: want %s or %s", bounded(string(x.Outcome), 20), CallTimeout, CallHTTPError)
	}
	return nil
}

// failure is why there was no answer, as far as it matters to what follows.
func (x exchange) failure() error {
	switch err := errors.New(x.Error); {
	case x.Outcome == CallTimeout && x.Final:
		return final{fmt.Errorf("no time was left for another attempt: %w", context.DeadlineExceeded)}
	case x.Outcome == CallTimeout:
		return context.DeadlineExceeded
	case x.Final:
		return final{err}
	default:
		return err
	}
}

// Model is the one that the first recorded request asked; empty when that does not say.
func (c *Cassette) Model() string {
	var said struct{ Model string }
	if json.Unmarshal(c.exchanges[0].Request, &said) != nil {
		return ""
	}
	return said.Model
}

// last says which exchange was played last.
func (c *Cassette) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// RoundTrip answers with the next exchange, if it belongs to the request.
func (c *Cassette) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = "none of the cassette's exchanges"
	if c.played == len(c.exchanges) {
		return nil, final{fmt.Errorf("the cassette ends after %d exchanges, and one more was asked for", len(c.exchanges))}
	}
	x := c.exchanges[c.played]
	where := fmt.Sprintf("exchange %d of %d", c.played+1, len(c.exchanges))
	differs, err := x.compare(bodyOf(req), c.Strict)
	if err != nil {
		return nil, final{fmt.Errorf("%s of the cassette is not for this request: %w", where, err)}
	}
	c.played++
	if c.answered = where; differs != "" {
		c.answered += "; " + differs
	}
	if x.Error != "" {
		return nil, x.failure()
	}
	resp := &http.Response{StatusCode: x.Status, Status: fmt.Sprintf("%d %s", x.Status, http.StatusText(x.Status)), Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req}
	for name, value := range x.Header {
		switch {
		case name != "Retry-After": // nobody is waited for
			resp.Header.Set(name, value)
		case x.Final: // nor was anybody then
			resp.Header.Set(name, fmt.Sprintf("%.0f", longest.Seconds()))
		}
	}
	body := x.Bytes
	if body == nil {
		body = []byte(x.Body)
	}
	resp.ContentLength, resp.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
