package advisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"retune/prompts"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

const (
	defaultBaseURL     = "https://api.openai.com/v1"
	defaultModel       = "gpt-4o"
	defaultTemperature = 0.3
	maxRepairs         = 2   // turns that hand back the faults of an answer
	maxModel           = 200 // bytes of a model's name, which becomes a version's author
)

// openAI asks a model behind an OpenAI-compatible endpoint.
type openAI struct {
	OpenAI
	host       string
	waitAtMost time.Duration // between attempts, where the server names no wait
}

func newOpenAI(c OpenAI) (*openAI, error) {
	c.CallTimeout, c.Total = cmp.Or(c.CallTimeout, time.Minute), cmp.Or(c.Total, 4*time.Minute)
	c.MaxTokens = cmp.Or(c.MaxTokens, 4096)
	if c.Replay != nil {
		return replaying(c), nil
	}
	c.BaseURL = strings.TrimRight(cmp.Or(strings.TrimSpace(c.BaseURL), defaultBaseURL), "/")
	c.Model = cmp.Or(strings.TrimSpace(c.Model), defaultModel)
	c.Key = strings.TrimSpace(c.Key)
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("OPENAI_BASE_URL is no http or https URL, e.g. " + defaultBaseURL)
	}
	if c.Key == "" && c.BaseURL == defaultBaseURL {
		return nil, errors.New("the generator openai needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own")
	}
	if len(c.Model) > maxModel {
		return nil, fmt.Errorf("OPENAI_MODEL has %d bytes, at most %d", len(c.Model), maxModel)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return nil, fmt.Errorf("a temperature of %v, want 0..2", *t)
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &openAI{OpenAI: c, host: u.Host, waitAtMost: 2 * time.Second}, nil
}

// replaying is the generator that a cassette answers: it asks what was asked, costs nothing and waits for nobody.
func replaying(c OpenAI) *openAI {
	c.Model, c.Transport, c.BaseURL = c.Replay.Model(), c.Replay, "http://cassette.invalid"
	c.Key, c.Purse, c.Record = "", nil, ""
	return &openAI{OpenAI: c, host: "cassette"}
}

// Advise asks for a rule set, with at most two more turns that hand back what is wrong with an answer.
func (o *openAI) Advise(ctx context.Context, e Evidence) (Advice, error) {
	return o.advise(ctx, e, nil)
}

// advise asks for a rule set that is none of those before.
func (o *openAI) advise(ctx context.Context, e Evidence, before []Advice) (Advice, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Total)
	defer cancel()
	rec := o.recorder(e.Cycle, PromptSHA())
	t := o.talk(rec, ruleForm(), o.temperature(), prompts.Rules, Compact(e))
	if len(before) > 0 {
		t.req.Messages = append(t.req.Messages, askAnother(e.Champion, before))
	}
	advice := Advice{Origin: rules.OriginLLM, Author: o.Model, PromptSHA: PromptSHA()}
	var refused error // why the last valid answer is no good
	err := t.converse(ctx, func(text string, c *Call) error {
		if err := read(text, e.Champion, &advice, c); err != nil {
			return err
		}
		refused = e.refusal(ctx, advice.Rules, c)
		return refused
	})
	advice.Calls = rec.calls
	if errors.As(err, new(faults)) && refused != nil {
		err = nil // it is valid, and the asker knows why it refuses it
	}
	if err != nil {
		return advice, o.keyless(rec, err)
	}
	advice.check(e)
	return advice, nil
}

// check looks up the figures of what is said, and marks those that are not in the evidence in the rule set as well: a
// rule's reason is shown by proxies, which know nothing else of it.
func (a *Advice) check(e Evidence) {
	a.Reasons = CheckReasons(a.Reasons, e, a.Rules)
	a.Summary = CheckReasons([]ruleversions.Reason{{Text: a.Summary}}, e, a.Rules)[0].Marked()
	for _, r := range a.Reasons {
		state := traffic.State(strings.TrimPrefix(r.Path, "rules."))
		if rule, is := a.Rules.Rules[state]; is {
			rule.Reason = r.Marked()
			a.Rules.Rules[state] = rule
		}
	}
}

// keyless is an error whose text has the key taken out.
type keyless struct {
	text string
	err  error
}

func (k keyless) Error() string { return k.text }

func (k keyless) Unwrap() error { return k.err }

func (o *openAI) keyless(rec *recorder, err error) error {
	return keyless{rec.redact(fmt.Sprintf("asking %s at %s: %s", o.Model, o.host, err)), err}
}

// recorder records the calls of one conversation, for a cycle's caps.
func (o *openAI) recorder(cycle int64, prompt string) *recorder {
	return &recorder{
		base: o.Transport, timeout: o.CallTimeout, secret: o.Key,
		purse: o.Purse, caps: o.Caps, cycle: cycle, tape: tapeFor(o.Record, cycle),
		call: Call{Provider: o.host, Model: o.Model, PromptSHA: prompt},
	}
}

// refusal is why a valid answer would be refused before any load; nil: it would not.
func (e Evidence) refusal(ctx context.Context, r rules.RuleSet, call *Call) error {
	if e.Refuse == nil {
		return nil
	}
	wrong := e.Refuse(ctx, r)
	if len(wrong) == 0 {
		return nil
	}
	call.Outcome = CallInvalidRules
	return faults(wrong)
}

// read turns an answer into advice, and notes on its call how it fared.
func read(text string, champion rules.RuleSet, advice *Advice, call *Call) error {
	a, outcome, err := parseAnswer(text)
	call.Outcome = outcome
	if err != nil {
		return err
	}
	r, err := a.apply(champion)
	if err != nil {
		call.Outcome = CallInvalidRules
		return err
	}
	advice.Rules, advice.Summary, advice.Reasons = r, oneLine(a.Summary), a.reasons(champion)
	return nil
}

// PromptSHA is the SHA-256 of all that a model is told beside the evidence, in hex: prompts and schema.
func PromptSHA() string {
	return sha([]byte(prompts.Rules + "\x00" + prompts.Repair + "\x00" + prompts.Another + "\x00" + string(schemaJSON())))
}

// temperature is what is sent. The library leaves out a 0, which servers read as 1; the smallest number there is
// comes to the same as 0 and is sent.
func (o *openAI) temperature() float32 {
	t := float32(defaultTemperature)
	if o.Temperature != nil {
		t = float32(*o.Temperature)
	}
	return max(t, math.SmallestNonzeroFloat32)
}

// client is the library's client, over the recorder.
func (o *openAI) client(rec *recorder) *openai.Client {
	c := openai.DefaultConfig(o.Key)
	c.BaseURL = o.BaseURL
	c.HTTPClient = patient(rec, o.waitAtMost/4, o.waitAtMost)
	return openai.NewClientWithConfig(c)
}
