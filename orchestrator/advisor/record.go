package advisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	maxBody   = 1 << 20  // bytes of a response that are read at all
	maxStored = 64 << 10 // bytes of a request or response that a Call keeps
)

var errTooLarge = fmt.Errorf("the answer is larger than %d KiB", maxBody>>10)

// recorder is the transport under the retries: it gives each attempt its own time, bounds what is read, and records
// every exchange as it went over the wire, the key taken out. For one Advise, from one goroutine at a time.
type recorder struct {
	base    http.RoundTripper
	timeout time.Duration
	secret  string
	call    Call // what all calls have in common
	calls   []Call
}

// RoundTrip sends one attempt and reads its answer whole.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), r.timeout)
	defer cancel()
	began := time.Now()
	c := r.call
	c.At = began
	c.Request = r.clean(bodyOf(req))
	c.Temperature = temperatureIn(c.Request)
	resp, body, err := r.exchange(req.WithContext(ctx))
	c.Latency = time.Since(began)
	c.Response = r.clean(body)
	c.Outcome = CallOK
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s: %w", r.timeout, err)
		c.Outcome = CallTimeout
	case err != nil:
		c.Outcome = CallHTTPError
	case resp.StatusCode >= 400:
		c.Outcome, c.Error = CallHTTPError, resp.Status
	default:
		c.count(body)
	}
	if err != nil {
		c.Error = r.clean([]byte(err.Error()))
	}
	r.calls = append(r.calls, c)
	return resp, err
}

func (r *recorder) exchange(req *http.Request) (*http.Response, []byte, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, body, err
	}
	if len(body) > maxBody {
		return nil, body, errTooLarge
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, body, nil
}

// clean makes bytes of the wire storable: bounded, no control characters, and never the key, which servers have been
// seen to send back.
func (r *recorder) clean(b []byte) string {
	return bounded(r.redact(string(b[:min(len(b), 4*maxStored)])), maxStored)
}

func (r *recorder) redact(text string) string {
	if r.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, r.secret, "[key]")
}

// last is the latest call, to say how its answer fared.
func (r *recorder) last() *Call {
	if len(r.calls) == 0 {
		return &Call{}
	}
	return &r.calls[len(r.calls)-1]
}

// bodyOf reads a copy of what will be sent.
func bodyOf(req *http.Request) []byte {
	if req.Body == nil {
		return nil
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(b))
	return b
}

func temperatureIn(request string) float64 {
	var sent struct {
		Temperature float64 `json:"temperature"`
	}
	if json.Unmarshal([]byte(request), &sent) != nil {
		return 0
	}
	return sent.Temperature
}

// count notes the tokens that the server says it used, and what they cost.
func (c *Call) count(body []byte) {
	var said struct {
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &said) != nil {
		return
	}
	c.PromptTokens, c.CompletionTokens = max(0, said.Usage.Prompt), max(0, said.Usage.Completion)
	if c.PromptTokens+c.CompletionTokens > 0 {
		c.CostUSD = cost(c.Model, c.PromptTokens, c.CompletionTokens)
	}
}
