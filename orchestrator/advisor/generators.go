package advisor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Generator proposes a rule set.
type Generator interface {
	// Advise answers with a whole, valid rule set. With an error the Advice still carries the Calls that were
	// made, so that they can be kept.
	Advise(ctx context.Context, e Evidence) (Advice, error)
}

// Config is what the generators need; each takes its own part.
type Config struct {
	OpenAI OpenAI
}

// OpenAI says which server and model the generator `openai` asks. Zero values mean the defaults.
type OpenAI struct {
	Key         string        // sent as a bearer token, never recorded; may be empty for a server of one's own
	BaseURL     string        // "https://api.openai.com/v1" by default; any compatible server
	Model       string        // "gpt-4o" by default
	Temperature *float64      // 0..2; nil: 0.3. Left out for models that take none
	CallTimeout time.Duration // of one HTTP attempt; 60 s by default
	Total       time.Duration // of all attempts, waits and repair turns together; 4 min by default
	MaxTokens   int           // of one answer; 4096 by default
	// Transport is what requests go out by; nil: a transport of its own.
	Transport http.RoundTripper
}

// generators is every generator, the default first.
var generators = []struct {
	name string
	make func(Config) (Generator, error)
}{
	{"local", func(Config) (Generator, error) { return local{}, nil }},
	{"openai", func(c Config) (Generator, error) { return newOpenAI(c.OpenAI) }},
}

// Names lists the generators, the default first.
func Names() []string {
	var out []string
	for _, g := range generators {
		out = append(out, g.name)
	}
	return out
}

// New makes the generator of that name; the error for an unknown name lists the known ones.
func New(name string, c Config) (Generator, error) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return nil, fmt.Errorf("unknown generator %q, want one of %s", name, strings.Join(Names(), ", "))
	}
	return generators[i].make(c)
}
