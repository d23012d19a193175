package rules

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// The readers below answer with the key's value, or note the fault and answer with zero. A value has one way to be
// written: numbers are plain decimals (YAML's 0x10, 1_000 and .inf are refused, and so is "5" in quotes), durations
// are Go's with their unit, texts may be plain, quoted or a block.

// text is a string of any content.
func (s *section) text(key string) string {
	n, at := s.take(key)
	switch x := n.(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return x.Value
	case *ast.LiteralNode:
		return x.Value.Value
	}
	s.add(at, s.join(key), "want a text, in quotes", "%s is %s", key, describe(n))
	return ""
}

// word is one of a list of words, spelt exactly so.
func (s *section) word(key string, words []string) string {
	n, at := s.take(key)
	if n == nil {
		return ""
	}
	x, ok := n.(*ast.StringNode)
	switch {
	case !ok:
		s.add(at, s.join(key), "want one of "+strings.Join(words, ", "), "%s is %s", key, describe(n))
	case !slices.Contains(words, x.Value):
		s.add(at, s.join(key), didYouMean(x.Value, words), "unknown %s %q", key, shorten(x.Value, 40))
	default:
		return x.Value
	}
	return ""
}

// decimal is how numbers are written.
var decimal = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// number is a decimal number from lo to hi.
func (s *section) number(key string, lo, hi float64) float64 {
	n, at := s.take(key)
	if n == nil {
		return 0
	}
	fix := fmt.Sprintf("want a number from %s to %s", plain(lo), plain(hi))
	raw, isPlain := plainScalar(n)
	v, err := strconv.ParseFloat(raw, 64)
	switch {
	case !isPlain || !decimal.MatchString(raw):
		s.add(at, s.join(key), fix, "%s is %s", key, describe(n))
	case err != nil || v < lo || v > hi:
		s.add(at, s.join(key), fix, "%s is out of range: %s", key, shorten(raw, 40))
	default:
		return v
	}
	return 0
}

// integer is a whole number from lo to hi.
func (s *section) integer(key string, lo, hi int) int {
	n, at := s.take(key)
	if n == nil {
		return 0
	}
	fix := fmt.Sprintf("want a whole number from %d to %d", lo, hi)
	raw, isPlain := plainScalar(n)
	v, err := strconv.Atoi(raw)
	switch {
	case !isPlain || !decimal.MatchString(raw) || strings.ContainsAny(raw, ".eE"):
		s.add(at, s.join(key), fix, "%s is %s", key, describe(n))
	case err != nil || v < lo || v > hi:
		s.add(at, s.join(key), fix, "%s is out of range: %s", key, shorten(raw, 40))
	default:
		return v
	}
	return 0
}

// duration is a span such as 10s from lo to hi.
func (s *section) duration(key string, lo, hi time.Duration) time.Duration {
	n, at := s.take(key)
	if n == nil {
		return 0
	}
	fix := fmt.Sprintf("want a duration from %s to %s", span(lo), span(hi))
	raw, isText := "", false
	if x, ok := n.(*ast.StringNode); ok {
		raw, isText = x.Value, true
	}
	d, err := time.ParseDuration(raw)
	switch {
	case !isText || err != nil:
		s.add(at, s.join(key), fix+", with its unit, e.g. 10s or 500ms", "%s is %s", key, describe(n))
	case d < lo || d > hi:
		s.add(at, s.join(key), fix, "%s is out of range: %s", key, shorten(raw, 40))
	default:
		return d
	}
	return 0
}

// plainScalar is the text of a number, or of an unquoted word that may be one: the library takes 1e3 for a text.
func plainScalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return x.GetToken().Value, true
	case *ast.StringNode:
		return x.Value, !quoted(x)
	}
	return "", false
}

// quoted reports whether a text stands in quotes, which makes it a text whatever it looks like.
func quoted(x *ast.StringNode) bool {
	t := x.GetToken().Type
	return t == token.DoubleQuoteType || t == token.SingleQuoteType
}

// describe says what stands where something else should, for a sentence such as "cooldown is a list".
func describe(n ast.Node) string {
	value := ""
	if t := n.GetToken(); t != nil {
		value = shorten(strconv.Quote(t.Value), 40)
	}
	switch x := n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return "the truth value " + value
	case *ast.NanNode:
		return "not a number (NaN)"
	case *ast.InfinityNode:
		return "infinite"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.StringNode:
		if f, err := strconv.ParseFloat(x.Value, 64); err == nil && math.IsNaN(f) {
			return "not a number (NaN)"
		}
		return "the text " + value
	}
	return value
}
