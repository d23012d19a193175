package rules

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNesting is how deep brackets, dashes and question marks may nest; a rule file needs three levels. The parser
// takes memory by the square of the depth, so it never sees more than this.
const maxNesting = 8

// scan reads the bytes as one YAML document and returns its root; nil when nothing is left to look at. What a rule
// file may not hold is noted as a fault wherever it stands, before the parser sees it.
func (r *faulter) scan(b []byte) ast.Node {
	if !r.readable(b) {
		return nil
	}
	tokens := lexer.Tokenize(string(b))
	if !r.allowed(tokens) {
		return nil
	}
	file, err := parse(tokens)
	if err != nil {
		r.syntax(err)
		return nil
	}
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.DirectiveType {
			return d.Body
		}
	}
	if len(r.list) == 0 {
		r.add(place{}, "", "a rule file starts with version: 1", "the file is empty")
	}
	return nil
}

// readable checks size and encoding. A fault here is the only one reported: places in what follows would be guesses.
func (r *faulter) readable(b []byte) bool {
	if len(b) > MaxSize {
		r.lines = nil
		r.add(place{}, "", fmt.Sprintf("at most %d bytes", MaxSize), "the file is too large")
		return false
	}
	if bytes.HasPrefix(b, []byte("\uFEFF")) {
		r.add(place{}, "", "save it as UTF-8 without one", "the file starts with a byte order mark")
		return false
	}
	for n, line := range bytes.Split(b, []byte("\n")) {
		for i, col := 0, 1; i < len(line); col++ {
			c, size := utf8.DecodeRune(line[i:])
			if c == utf8.RuneError && size == 1 {
				r.add(place{n + 1, col}, "", "save the file as UTF-8", "byte 0x%02x is not UTF-8", line[i])
				return false
			}
			if c == 0 {
				r.add(place{n + 1, col}, "", "remove it", "NUL byte")
				return false
			}
			i += size
		}
	}
	return true
}

// refused is what YAML offers and a rule file may not use.
var refused = map[token.Type][2]string{
	token.AnchorType:         {"anchor", "write the value out"},
	token.AliasType:          {"alias", "write the value out"},
	token.MergeKeyType:       {"merge key", "write the keys out"},
	token.TagType:            {"tag", "write the value without it"},
	token.DirectiveType:      {"directive", "remove it"},
	token.DocumentHeaderType: {"document marker", "a rule file is one document without markers"},
	token.DocumentEndType:    {"document marker", "a rule file is one document without markers"},
	token.MappingKeyType:     {"complex key", "write it as key: value"},
}

// allowed notes every refused token; false when the nesting is too deep to go on. Brackets nest across lines; dashes
// and question marks nest within one (- - - x), and by indentation only as deep as 64 KiB have room for.
func (r *faulter) allowed(tokens token.Tokens) bool {
	depth, dashes, line := 0, 0, 0
	for _, t := range tokens {
		at := place{t.Position.Line, t.Position.Column}
		if x, bad := refused[t.Type]; bad {
			r.add(at, "", x[1], "%s %q is not allowed", x[0], shorten(t.Value, 40))
		}
		if at.line != line {
			line, dashes = at.line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if depth > maxNesting || dashes > maxNesting {
			r.add(at, "", "a rule file needs three levels", "nested more than %d deep", maxNesting)
			return false
		}
	}
	return true
}

// parse runs the library's parser; a panic in it is a fault of the file.
func parse(tokens token.Tokens) (f *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("this is not YAML")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntax notes what the parser refused. It stops at its first error, so there is one at most, beside those of allowed.
func (r *faulter) syntax(err error) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		r.add(place{}, "", "", "not valid YAML: %v", err)
		return
	}
	at := e.GetToken().Position
	r.add(place{at.Line, at.Column}, "", "", "not valid YAML: %s", e.GetMessage())
}
