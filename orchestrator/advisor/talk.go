package advisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sashabaranov/go-openai"

	"retune/prompts"
)

// talk is one conversation: the question, the answers that could not be used, and what the server would not take.
type talk struct {
	client *openai.Client
	rec    *recorder
	req    openai.ChatCompletionRequest
}

// talk opens a conversation that is to end in an answer of the form.
func (o *openAI) talk(rec *recorder, f form, temperature float32, prompt, evidence string) *talk {
	return &talk{client: o.client(rec), rec: rec, req: openai.ChatCompletionRequest{
		Model: o.Model, Temperature: temperature, MaxCompletionTokens: o.MaxTokens,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: prompt},
			{Role: openai.ChatMessageRoleUser, Content: evidence},
		},
		ResponseFormat: &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: f.name, Schema: f.json, Strict: true},
		},
	}}
}

// converse goes on until read takes an answer, or the repair turns are used up. read notes on the answer's call how it
// fared; its faults are handed back.
func (t *talk) converse(ctx context.Context, read func(text string, c *Call) error) error {
	for turn := 0; ; turn++ {
		text, err := t.ask(ctx)
		if err == nil {
			err = read(text, t.rec.last())
		}
		var wrong faults
		if !errors.As(err, &wrong) {
			return err
		}
		t.rec.last().Error = t.rec.redact(wrong.Error())
		if turn == maxRepairs {
			return fmt.Errorf("no usable answer in %d turns; the last one: %w", turn+1, wrong)
		}
		t.handBack(text, wrong)
	}
}

// maxConcessions bounds how many parameters a server may refuse: the format twice, temperature and the token bound.
const maxConcessions = 4

// ask sends the conversation. Faults are for an answer that a further turn may mend; any other error is final.
func (t *talk) ask(ctx context.Context) (string, error) {
	for range 1 + maxConcessions {
		resp, err := t.client.CreateChatCompletion(ctx, t.req)
		if err == nil {
			return t.text(resp)
		}
		if !t.concede(err) {
			return "", t.failed(ctx, err)
		}
	}
	return "", errors.New("the server refuses one parameter after the other")
}

// concede changes the request where a server does not know a parameter, and reports whether it did: strict schema,
// then JSON mode, then no format; a temperature; the newer name of the token bound.
func (t *talk) concede(err error) bool {
	if errors.Is(err, openai.ErrReasoningModelLimitationsOther) || errors.Is(err, openai.ErrReasoningSamplingUnsupported) {
		t.req.Temperature = 0
		return true
	}
	status, message := statusOf(err)
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(message, w) {
				return true
			}
		}
		return false
	}
	switch {
	case t.req.ResponseFormat != nil && has("response_format", "json_schema", "json_object"):
		if t.req.ResponseFormat.Type == openai.ChatCompletionResponseFormatTypeJSONSchema {
			t.req.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
		} else {
			t.req.ResponseFormat = nil
		}
	case t.req.Temperature != 0 && has("temperature"):
		t.req.Temperature = 0
	case t.req.MaxTokens == 0 && has("max_completion_tokens"):
		t.req.MaxTokens, t.req.MaxCompletionTokens = t.req.MaxCompletionTokens, 0
	default:
		return false
	}
	return true
}

// statusOf is the HTTP status and the message of a server's error; 0 when there was none.
func statusOf(err error) (int, string) {
	var api *openai.APIError
	if errors.As(err, &api) {
		message := api.Message
		if api.Param != nil {
			message += " " + *api.Param
		}
		return api.HTTPStatusCode, message
	}
	var req *openai.RequestError
	if errors.As(err, &req) {
		return req.HTTPStatusCode, string(req.Body)
	}
	return 0, ""
}

// text takes the answer's text out of a response, or says why there is none.
func (t *talk) text(resp openai.ChatCompletionResponse) (string, error) {
	call := t.rec.last()
	if len(resp.Choices) == 0 {
		return "", empty(call)
	}
	c := resp.Choices[0]
	text := t.rec.redact(contentOf(c.Message)) // before anything quotes a part of it
	switch {
	case c.Message.Refusal != "" || c.FinishReason == openai.FinishReasonContentFilter:
		call.Outcome = CallRefused
		call.Error = t.rec.clean(cmp.Or(c.Message.Refusal, "stopped by the provider's content filter"), 300)
		return "", fmt.Errorf("the model refused: %s", oneLine(call.Error))
	case c.FinishReason == openai.FinishReasonLength:
		call.Outcome = CallTruncated
		return text, faults{fmt.Sprintf("the answer was cut off at %d tokens: be shorter", max(0, resp.Usage.CompletionTokens))}
	case strings.TrimSpace(text) == "" && (len(c.Message.ToolCalls) > 0 || c.Message.FunctionCall != nil):
		call.Outcome = CallEmpty
		return "", faults{"the answer calls a tool, and none was offered: answer in the content"}
	case strings.TrimSpace(text) == "":
		call.Outcome = CallEmpty
		return "", faults{"the answer is empty"}
	}
	return text, nil
}

// contentOf is a message's text; some servers send it in parts.
func contentOf(m openai.ChatCompletionMessage) string {
	var text strings.Builder
	text.WriteString(m.Content)
	for _, part := range m.MultiContent {
		text.WriteString(part.Text)
	}
	return text.String()
}

// empty says why a response without a choice has none: some gateways answer 200 with an error in it, which is final.
func empty(call *Call) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(call.Response), &said) == nil && len(said.Error) > 0 && string(said.Error) != "null" {
		call.Outcome, call.Error = CallHTTPError, bounded(string(said.Error), 300)
		return fmt.Errorf("the server answered with an error: %s", oneLine(call.Error))
	}
	call.Outcome = CallEmpty
	return faults{"the answer is empty"}
}

// handBack adds a turn that says exactly what was wrong with an answer, and repeats as much of it as is useful.
func (t *talk) handBack(text string, wrong faults) {
	if text != "" {
		t.req.Messages = append(t.req.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: bounded(text, 8000)})
	}
	t.req.Messages = append(t.req.Messages, openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleUser, Content: prompts.Repair + bounded("- "+strings.Join(wrong, "\n- "), 4000),
	})
}

// failed says what to do about an exchange that brought no answer.
func (t *talk) failed(ctx context.Context, err error) error {
	if f, is := errors.AsType[final](err); is {
		return f.error
	}
	status, message := statusOf(err)
	message = oneLine(t.rec.clean(message, 300))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("the server refused the key (%d): check OPENAI_API_KEY", status)
	case status == http.StatusNotFound:
		return fmt.Errorf("not found (404): check OPENAI_MODEL and OPENAI_BASE_URL: %s", message)
	case status == http.StatusTooManyRequests:
		return fmt.Errorf("too many requests or no quota left (429) after %d attempts: %s", len(t.rec.calls), message)
	case status != 0:
		return fmt.Errorf("the server answered %d after %d attempts: %s", status, len(t.rec.calls), message)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no answer in the time that all attempts have, after %d: %w", len(t.rec.calls), ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if c := t.rec.last(); c.Outcome == CallOK { // it came, and could not be read
		c.Outcome = CallInvalidJSON
		return fmt.Errorf("the server's answer is no chat completion; check OPENAI_BASE_URL: %w", err)
	}
	return fmt.Errorf("no answer; check OPENAI_BASE_URL: %w", err)
}
