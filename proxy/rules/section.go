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

// section is one mapping of a rule file. Each key is asked for once, by the type that it has to have; done then
// reports the keys that nobody asked for. A section that isn't there answers with zeros, silently: its absence has
// been noted.
type section struct {
	*faulter
	at     place
	path   string // "" at the top
	values map[string]ast.Node
	keys   map[string]place
	known  []string
}

// section reads a node as a mapping.
func (r *faulter) section(n ast.Node, at place, path string) *section {
	s := &section{faulter: r, at: at, path: path}
	m, ok := n.(ast.MapNode)
	if !ok {
		if n != nil {
			r.add(at, path, "want keys and values", "%s is %s", s.name(), describe(n))
		}
		return s
	}
	s.values, s.keys = map[string]ast.Node{}, map[string]place{}
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken()
		name, at := key.Value, place{key.Position.Line, key.Position.Column}
		if first, twice := s.keys[name]; twice {
			r.add(at, s.join(name), "keep one of the two", "duplicate key %q, first on line %d", shorten(name, 40), first.line)
			continue
		}
		s.keys[name], s.values[name] = at, unwrap(it.Value())
	}
	return s
}

// unwrap removes what scan has refused already, so that the value behind it is looked at too.
func unwrap(n ast.Node) ast.Node {
	for range maxNesting {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.TagNode:
			n = x.Value
		default:
			return n
		}
	}
	return n
}

// take is the value of a key, or nil with the fault noted.
func (s *section) take(key string) (ast.Node, place) {
	s.known = append(s.known, key)
	if s.values == nil {
		return nil, place{}
	}
	n, there := s.values[key]
	if !there {
		s.add(s.at, s.join(key), "add it", "%s has no key %q", s.name(), key)
		return nil, place{}
	}
	if _, alias := n.(*ast.AliasNode); alias || n == nil {
		return nil, place{} // an alias was noted by scan
	}
	return n, start(n, s.keys[key])
}

// start is where a node begins; a mapping's own token is the colon after its first key, so its key serves.
func start(n ast.Node, key place) place {
	if t := n.GetToken(); t != nil && t.Position != nil && n.Type() != ast.NullType && t.Value != ":" && t.Position.Column > 0 {
		return place{t.Position.Line, t.Position.Column}
	}
	return key
}

// has reports whether an optional key is there.
func (s *section) has(key string) bool {
	_, there := s.values[key]
	if !there {
		s.known = append(s.known, key)
	}
	return there
}

// mapping is a key's section.
func (s *section) mapping(key string) *section {
	n, at := s.take(key)
	return s.section(n, at, s.join(key))
}

// text is a string.
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

// word is one of a list of words.
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

// done reports the keys that nobody asked for.
func (s *section) done() {
	for key, at := range s.keys {
		if !slices.Contains(s.known, key) {
			s.add(at, s.join(key), didYouMean(key, s.known), "unknown key %q in %s", shorten(key, 40), s.name())
		}
	}
}

func (s *section) name() string {
	if s.path == "" {
		return "the file"
	}
	return s.path
}

func (s *section) join(key string) string {
	if key = shorten(key, 40); s.path == "" {
		return key
	}
	return s.path + "." + key
}

// plainScalar is the text of a number, or of an unquoted word that may be one.
func plainScalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return x.GetToken().Value, true
	case *ast.StringNode:
		return x.Value, !quoted(x)
	}
	return "", false
}

func quoted(x *ast.StringNode) bool {
	t := x.GetToken().Type
	return t == token.DoubleQuoteType || t == token.SingleQuoteType
}

// describe says what stands where something else should.
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
