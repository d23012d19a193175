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
	// Proposals answers with up to n rule sets, no two of which make a proxy behave the same. An error means that
	// there is none; the Proposals still carry the calls that were made.
	Proposals(ctx context.Context, e Evidence, n int) (Proposals, error)
}

// Proposals is what asking for several rule sets brought.
type Proposals struct {
	Advice []Advice // in the order of asking, each with the calls that led to it
	Rest   []Call   // calls that led to no advice: failed ones, and answers that equal an earlier one
	Short  string   // why there are fewer than were asked for; empty: there are not
}

// Calls is every exchange, whatever came of it.
func (p Proposals) Calls() []Call {
	var out []Call
	for _, a := range p.Advice {
		out = append(out, a.Calls...)
	}
	return append(out, p.Rest...)
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
	Purse     Purse     // pays for the calls of cycles; nil: nobody is asked
	Caps      Caps      // what they may cost
	Record    string    // cassette (a file *.jsonl) or folder of cassettes, one per cycle, in which every exchange is recorded; empty: none
	Replay    *Cassette // answers in the server's place, without a key; nil: the server does
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
