package advisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxBody   = 1 << 20  // bytes of a response that are read at all
	maxStored = 64 << 10 // bytes of a request or response that a Call keeps
)

var (
	errRedirect = final{errors.New("the server redirects, and the key is sent nowhere else: set OPENAI_BASE_URL to the address that it leads to")}
	errTooLarge = final{fmt.Errorf("the answer is larger than %d KiB", maxBody>>10)}
)

// recorder is the transport under the retries: it has each attempt paid for, gives it its own time, bounds what is
// read, and records every exchange as it went over the wire, the key taken out. For one conversation, from one
// goroutine at a time.
type recorder struct {
	base    http.RoundTripper
	timeout time.Duration
	secret  string
	purse   Purse // nil: nobody is asked
	caps    Caps
	cycle   int64
	tape    *tape // nil: nothing is recorded in a cassette
	call    Call  // what all calls have in common
	calls   []Call
}

// RoundTrip sends one attempt and reads its answer whole.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), r.timeout)
	defer cancel()
	sent := bodyOf(req)
	c, err := r.begin(ctx, sent)
	if err != nil {
		return nil, err
	}
	resp, body, err := r.exchange(req.WithContext(ctx))
	c.Latency = time.Since(c.At)
	c.Response = r.clean(string(body), maxStored)
	err = c.end(resp, body, err, r.timeout)
	if cassette, is := r.base.(*Cassette); is { // nothing was paid
		c.Replayed, c.CostUSD, c.Prices, c.MostUSD, c.MostTokens = cassette.last(), nil, "", nil, 0
	}
	if err != nil {
		c.Error = err.Error()
	}
	c.Error = r.clean(c.Error, maxStored)
	r.calls = append(r.calls, c)
	if failed := r.record(req.Context(), c, sent, resp, body, err); failed != nil {
		err = final{failed}
	}
	r.settle(ctx, c)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// settleFor is how long the store may take for a call that was made.
const settleFor = 10 * time.Second

// settle stores what a call came to, even when ctx has ended. One that can't be settled counts with the most that it may have
// taken.
func (r *recorder) settle(ctx context.Context, c Call) {
	if c.ID == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer stop()
	_ = r.purse.Settle(ctx, c)
}

// record adds an exchange to the cassette that is being recorded, if one is; ctx is the conversation's.
func (r *recorder) record(ctx context.Context, c Call, sent []byte, resp *http.Response, body []byte, failed error) error {
	if r.tape == nil || c.Replayed != "" {
		return nil
	}
	x, err := r.exchangeOf(c, sent, resp, body, failed)
	if err != nil {
		return err
	}
	if c.Outcome != CallOK {
		if failed != nil {
			failed = &url.Error{Op: "Post", Err: failed} // as the client hands it on
		}
		again, _ := worthRetrying(ctx, resp, failed)
		x.Final = !again
	}
	return r.tape.add(x)
}

// begin describes the call that is about to be made, and has it paid for.
func (r *recorder) begin(ctx context.Context, sent []byte) (Call, error) {
	c := r.call
	c.At, c.Outcome = time.Now(), CallPending
	c.Request = r.clean(string(sent), maxStored)
	var said struct {
		Temperature float64 `json:"temperature"`
		Completion  int     `json:"max_completion_tokens"`
		Older       int     `json:"max_tokens"`
	}
	if json.Unmarshal(sent, &said) == nil {
		c.Temperature = said.Temperature
	}
	prompt, completion := Tokens(string(sent)), said.Completion+said.Older
	c.MostTokens, c.MostUSD = prompt+completion, cost(c.Model, prompt, completion)
	if c.MostUSD != nil {
		c.Prices = PricesAsOf
	}
	if r.purse == nil || r.cycle == 0 {
		return c, nil
	}
	var err error
	if c.ID, err = r.purse.Reserve(ctx, r.cycle, c, r.caps); err != nil {
		return c, final{err}
	}
	return c, nil
}

// final is an error that asking again does not mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// end notes how an exchange ended, and makes of what has the look of an answer and is none an error.
func (c *Call) end(resp *http.Response, body []byte, err error, timeout time.Duration) error {
	c.Outcome = CallOK
	var dial *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s: %w", timeout, err)
		c.Outcome = CallTimeout
	case err != nil:
		c.Outcome = CallHTTPError
		if errors.As(err, &dial) && dial.Op == "dial" { // nothing was sent
			c.tookNothing()
		}
	case resp.StatusCode >= 400:
		c.Outcome, c.Error = CallHTTPError, resp.Status
		if resp.StatusCode < 500 { // refused, and so not worked on
			c.tookNothing()
		}
	case resp.StatusCode >= 300:
		c.Outcome = CallHTTPError
		err = fmt.Errorf("%w (%s)", errRedirect, resp.Status)
	default:
		c.count(body)
	}
	return err
}

// tookNothing notes that the server did no work for a call.
func (c *Call) tookNothing() {
	c.MostTokens, c.CostUSD = 0, cost(c.Model, 0, 0)
	c.MostUSD = c.CostUSD
}

func (r *recorder) exchange(req *http.Request) (*http.Response, []byte, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, r.brokenOff(body), err
	}
	if len(body) > maxBody {
		return nil, r.brokenOff(body), errTooLarge
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, body, nil
}

// clean makes text of the wire storable: no control characters, never the key, which servers have been seen to send back, and
// at most n bytes. It is cut last, or a part of the key could be left before the cut.
func (r *recorder) clean(text string, n int) string { return bounded(r.redact(readable(text)), n) }

func (r *recorder) redact(text string) string {
	if r.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, r.secret, "[key]")
}

// brokenOff is a body that ended early, without the beginning of the key that it may have ended in.
func (r *recorder) brokenOff(body []byte) []byte {
	for n := len(r.secret); n > 0; n-- {
		if bytes.HasSuffix(body, []byte(r.secret[:n])) {
			return body[:len(body)-n]
		}
	}
	return body
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

// count notes the tokens that the server says it used, and what they cost; a server that tells no usage leaves the cost
// unknown.
func (c *Call) count(body []byte) {
	var said struct {
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &said) != nil {
		return
	}
	tokens := func(n int64) int { return int(min(max(n, 0), math.MaxInt32/2)) } // what a column holds
	c.PromptTokens, c.CompletionTokens = tokens(said.Usage.Prompt), tokens(said.Usage.Completion)
	if c.PromptTokens+c.CompletionTokens > 0 {
		c.CostUSD = cost(c.Model, c.PromptTokens, c.CompletionTokens)
	}
}
