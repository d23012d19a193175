package advisor

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// compare says where a request differs from the recorded one: in an error where it may not, else in words; empty when
// they are the same. Where it is not strict, what a user's turn says may differ.
func (x exchange) compare(sent []byte, strict bool) (differs string, err error) {
	canonical, err := canonicalJSON(sent)
	if err != nil {
		return "", fmt.Errorf("it is no JSON: %w", err)
	}
	if sha(canonical) == x.RequestSHA {
		return "", nil
	}
	var was, is any
	if err := errors.Join(json.Unmarshal(x.Request, &was), json.Unmarshal(sent, &is)); err != nil {
		return "", err
	}
	for _, d := range differences("", was, is) {
		if strict || !userTurn(is, d.path) {
			return "", fmt.Errorf("at %s it has %s, recorded was %s", cmp.Or(d.path, "/"), d.is, d.was)
		}
		differs = "its evidence was another"
	}
	return differs, nil
}

// difference is a place in which two JSON documents differ.
type difference struct{ path, was, is string }

// differences lists the places in which two JSON documents differ, in a fixed order.
func differences(path string, was, is any) (all []difference) {
	switch a := was.(type) {
	case map[string]any:
		b, same := is.(map[string]any)
		if !same {
			break
		}
		keys := map[string]bool{}
		for key := range a {
			keys[key] = true
		}
		for key := range b {
			keys[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, differences(path+"/"+key, a[key], b[key])...)
		}
		return all
	case []any:
		b, same := is.([]any)
		if !same || len(a) != len(b) {
			break
		}
		for i := range a {
			all = append(all, differences(fmt.Sprintf("%s/%d", path, i), a[i], b[i])...)
		}
		return all
	}
	if reflect.DeepEqual(was, is) {
		return nil
	}
	a, textA := was.(string)
	b, textB := is.(string)
	if textA && textB {
		was, is = parted(a, b)
	}
	return []difference{{path, shortJSON(was), shortJSON(is)}}
}

// parted leaves out what two texts begin with alike, but for a few words before they part.
func parted(a, b string) (string, string) {
	const before = 20
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	if at = max(0, at-before); at == 0 {
		return a, b
	}
	return "…" + strings.ToValidUTF8(a[at:], ""), "…" + strings.ToValidUTF8(b[at:], "")
}

// shortJSON is a value for an error's text.
func shortJSON(v any) string {
	if list, is := v.([]any); is {
		return fmt.Sprintf("a list of %d", len(list))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return bounded(string(b), 80)
}

var messageContent = regexp.MustCompile(`^/messages/(\d+)/content$`)

// userTurn reports whether a path is the text of a user's turn, in which evidence and faults are told.
func userTurn(request any, path string) bool {
	found := messageContent.FindStringSubmatch(path)
	if found == nil {
		return false
	}
	var said struct{ Messages []struct{ Role string } }
	b, err := json.Marshal(request)
	if err != nil || json.Unmarshal(b, &said) != nil {
		return false
	}
	for i, m := range said.Messages {
		if fmt.Sprint(i) == found[1] {
			return m.Role == "user"
		}
	}
	return false
}

// canonicalJSON writes a JSON document with its keys sorted and without white space.
func canonicalJSON(b []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func sha(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
