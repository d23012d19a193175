package advisor

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/invopop/jsonschema"
	validate "github.com/santhosh-tekuri/jsonschema/v6"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// JSONSchemaExtend names the states and algorithms that there are.
func (answerRule) JSONSchemaExtend(s *jsonschema.Schema) {
	s.Properties.Value("state").Enum = anyOf(traffic.States())
	s.Properties.Value("algorithm").Enum = anyOf(balance.Algorithms())
}

// JSONSchemaExtend names the thresholds that there are.
func (answerThreshold) JSONSchemaExtend(s *jsonschema.Schema) {
	paths := make([]string, len(thresholds))
	for i, t := range thresholds {
		paths[i] = t.path
	}
	s.Properties.Value("path").Enum = anyOf(paths)
}

func anyOf[T any](x []T) []any {
	out := make([]any, len(x))
	for i, v := range x {
		out[i] = v
	}
	return out
}

// form is what an answer of one kind has to look like.
type form struct {
	name   string // that the server is told
	what   string // several of them are called
	key    string // by which an object is known to be such an answer
	json   json.RawMessage
	schema *validate.Schema
}

// The forms of the two questions that a model is asked.
var (
	ruleForm    = sync.OnceValue(func() form { return newForm("rule_set", "rule sets", "rules", answer{}) })
	patternForm = sync.OnceValue(func() form { return newForm("patterns", "lists of segments", "segments", patternAnswer{}) })
)

// newForm makes the JSON schema of an answer within what strict structured output takes: every property required, none
// besides, no bounds on lengths.
func newForm(name, what, key string, like any) form {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	s := r.Reflect(like)
	s.Version = ""
	b, err := json.Marshal(s)
	if err != nil {
		panic("advisor: the schema of " + name + " does not encode: " + err.Error())
	}
	doc, err := validate.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		panic("advisor: the schema of " + name + " is no JSON: " + err.Error())
	}
	c := validate.NewCompiler()
	if err := c.AddResource("answer.json", doc); err != nil {
		panic("advisor: the schema of " + name + ": " + err.Error())
	}
	return form{name, what, key, b, c.MustCompile("answer.json")}
}

// schemaJSON is the schema of a rule set's answer.
func schemaJSON() json.RawMessage { return ruleForm().json }

// maxFaults bounds how many faults of the schema are handed back: 200 wrong rules say no more than 20.
const maxFaults = 20

// check lists every place where an object does not fit the schema.
func (f form) check(object any) error {
	var invalid *validate.ValidationError
	err := f.schema.Validate(object)
	if !errors.As(err, &invalid) {
		return err
	}
	var wrong faults
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error == nil || strings.HasPrefix(unit.Error.String(), "validation failed") {
			continue
		}
		if len(wrong) == maxFaults {
			wrong.add("and more of the same")
			break
		}
		wrong.add("%s: %s", orRoot(unit.InstanceLocation), bounded(unit.Error.String(), 400))
	}
	if len(wrong) == 0 {
		wrong.add("the answer does not fit the schema")
	}
	return wrong
}

func orRoot(path string) string {
	if path == "" {
		return "/"
	}
	return bounded(path, 100)
}
