package advisor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sashabaranov/go-openai"

	"retune/prompts"
	"retune/proxy/rules"
)

// Proposals asks one question per rule set: many compatible servers ignore a request for n answers. Each question after
// the first tells what was proposed before it. What goes wrong after the first answer leaves those that there are.
func (o *openAI) Proposals(ctx context.Context, e Evidence, n int) (p Proposals, err error) {
	equal := 0
	for range max(n, 1) {
		a, err := o.advise(ctx, e, p.Advice)
		if err != nil && len(p.Advice) == 0 {
			p.Rest = append(p.Rest, a.Calls...)
			return p, err
		}
		if err != nil {
			p.Rest = append(p.Rest, a.Calls...)
			p.Short = fmt.Sprintf("%d of %d answers came: %s", len(p.Advice), n, err)
			return p, nil
		}
		if slices.ContainsFunc(p.Advice, func(b Advice) bool { return rules.Same(a.Rules, b.Rules) }) {
			equal++
			p.Rest = append(p.Rest, a.Calls...)
			continue
		}
		p.Advice = append(p.Advice, a)
	}
	if equal > 0 {
		p.Short = fmt.Sprintf("%d of %d answers equalled an earlier one", equal, n)
	}
	return p, nil
}

// askAnother is the turn that asks for a rule set unlike those proposed before.
func askAnother(champion rules.RuleSet, before []Advice) openai.ChatCompletionMessage {
	told := [][]string{} // what each changes
	for _, a := range before {
		told = append(told, Changes(champion, a.Rules))
	}
	list, err := json.Marshal(told)
	if err != nil {
		panic("advisor: lists of texts do not encode: " + err.Error())
	}
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: prompts.Another + string(list)}
}
