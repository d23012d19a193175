package advisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"retune/proxy/traffic"
)

const (
	maxTries    = 40 // how many opening braces are tried in prose
	maxDepth    = 12 // of nesting in an answer; 3 are needed
	maxNumber   = 32 // bytes of a number
	maxExponent = 3  // digits of its exponent
)

// find finds the answer's JSON object in a text that may have a code fence or prose around it. Two answers that
// differ are a fault: there is no telling which was meant.
func (f form) find(text string) (map[string]any, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case text == "":
		return nil, faults{"the answer is empty"}
	case len(text) > maxAnswer:
		return nil, faults{fmt.Sprintf("the answer has %d bytes, at most %d", len(text), maxAnswer)}
	case strings.HasPrefix(text, "<"):
		return nil, faults{"the answer is HTML or XML, not JSON"}
	}
	var found, other map[string]any // an answer, and an object that is none
	first := error(faults{"the answer holds no JSON object"})
	rest := text
	for try := range maxTries {
		i := strings.IndexByte(rest, '{')
		if i < 0 {
			break
		}
		object, n, err := decodeObject(rest[i:])
		_, ours := object[f.key]
		switch {
		case err != nil && try == 0:
			first = faults{"the answer is no valid JSON: " + err.Error()}
		case ours && found != nil && !reflect.DeepEqual(object, found):
			return nil, faults{"the answer holds two " + f.what + " that differ: send one object alone"}
		case ours:
			found = object
		case err == nil && try == 0 && i == 0:
			other = object
		}
		if !ours {
			n = 1 // an answer may be wrapped in another object
		}
		rest = rest[i+n:]
	}
	switch {
	case found != nil:
		return found, nil
	case other != nil:
		return other, nil
	}
	return nil, first
}

// decodeObject reads the JSON object that text begins with, and how many bytes it takes; what follows it is left alone. A
// key that stands twice in one object is an error, because there is no telling which was meant.
func decodeObject(text string) (object map[string]any, n int, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, err := decodeValue(dec, maxDepth)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, 0, fmt.Errorf("it ends before it is complete")
	}
	if err != nil {
		return nil, 0, err
	}
	return v.(map[string]any), int(dec.InputOffset()), nil
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if n, is := t.(json.Number); is && outsized(string(n)) {
		return nil, fmt.Errorf("the number %s has more than %d characters or more than %d digits in its exponent", bounded(string(n), maxNumber), maxNumber, maxExponent)
	}
	delim, nested := t.(json.Delim)
	if !nested {
		return t, nil
	}
	if depth == 0 {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if delim == '[' {
		list := []any{}
		for dec.More() {
			v, err := decodeValue(dec, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return decodeMembers(dec, depth)
}

// outsized reports whether a number is one that nobody means. The schema's check writes numbers out: 1e999999 alone takes
// it tens of milliseconds, and an answer has room for ten thousand.
func outsized(number string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	return len(number) > maxNumber || len(strings.TrimLeft(exponent, "+-")) > maxExponent
}

func decodeMembers(dec *json.Decoder, depth int) (map[string]any, error) {
	object := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, isString := t.(string)
		if !isString {
			return nil, fmt.Errorf("a key is no string")
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("the key %q stands twice in one object", bounded(key, 40))
		}
		if object[key], err = decodeValue(dec, depth-1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}

// normalise puts right, in place, what can only have been meant one way.
func normalise(object map[string]any) {
	object["summary"] = asText(object["summary"])
	rules, thresholds := asList(byState(object["rules"])), asList(object["thresholds"])
	object["rules"], object["thresholds"] = rules, thresholds
	for _, r := range rules {
		if rule, is := r.(map[string]any); is {
			asName(rule, "state")
			asName(rule, "algorithm")
			rule["reason"] = asText(rule["reason"])
			if rule["decay"] == nil {
				rule["decay"] = ""
			}
		}
	}
	for _, t := range thresholds {
		if threshold, is := t.(map[string]any); is {
			threshold["reason"] = asText(threshold["reason"])
			if n, is := threshold["value"].(json.Number); is {
				threshold["value"] = n.String()
			}
		}
	}
}

// byState makes rules keyed by their state a list; anything else stays.
func byState(v any) any {
	object, is := v.(map[string]any)
	if !is || object["state"] != nil {
		return v
	}
	var list []any
	for _, s := range traffic.States() {
		for key, rule := range object {
			inner, is := rule.(map[string]any)
			if is && nameOf(key) == string(s) {
				if inner["state"] == nil {
					inner["state"] = key
				}
				list = append(list, inner)
				delete(object, key)
			}
		}
	}
	if len(object) > 0 { // something that is no rule: the schema shall say so
		list = append(list, object)
	}
	return list
}

// asList wraps a scalar where a list belongs; nothing at all is an empty list. Whether the element is any good, the
// schema says.
func asList(v any) []any {
	switch x := v.(type) {
	case nil:
		return []any{}
	case []any:
		return x
	}
	return []any{v}
}

// asText joins a list of strings into one text; anything else stays.
func asText(v any) any {
	list, is := v.([]any)
	if !is {
		return v
	}
	var parts []string
	for _, x := range list {
		s, is := x.(string)
		if !is {
			return v
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

func asName(object map[string]any, key string) {
	if s, is := object[key].(string); is {
		object[key] = nameOf(s)
	}
}

// nameOf makes "least connections" and "Least-Connections" LEAST_CONNECTIONS.
func nameOf(s string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToUpper(strings.TrimSpace(strings.Map(legible, s))))
}
