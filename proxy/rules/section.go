package rules

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// section is one mapping of a rule file. Each key is asked for once, by the type that it has to have; done then
// reports the keys that nobody asked for. A section that isn't there answers with zeros, silently: its absence has
// been noted.
type section struct {
	*faulter
	at     place               // where faults of the section as a whole are reported
	path   string              // e.g. "rules.SPIKE"; "" at the top
	values map[string]ast.Node // nil: the section isn't there
	keys   map[string]place    // where each key stands
	known  []string            // the keys that were asked for
}

// section reads a node as a mapping. Of a key that stands there twice the first counts; a node of another kind is
// a fault, a nil one has been noted by whoever looked for it.
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
		return nil, place{} // noted by scan, and nothing is known of what it stands for
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

// mapping is the section under a key.
func (s *section) mapping(key string) *section {
	n, at := s.take(key)
	return s.section(n, at, s.join(key))
}

// done reports the keys that nobody asked for.
func (s *section) done() {
	for key, at := range s.keys {
		if !slices.Contains(s.known, key) {
			s.add(at, s.join(key), didYouMean(key, s.known), "unknown key %q in %s", shorten(key, 40), s.name())
		}
	}
}

// name is what faults call the section.
func (s *section) name() string {
	if s.path == "" {
		return "the file"
	}
	return s.path
}

// join is the path of one of its keys. A key may be anything that someone typed, and long.
func (s *section) join(key string) string {
	if key = shorten(key, 40); s.path == "" {
		return key
	}
	return s.path + "." + key
}
