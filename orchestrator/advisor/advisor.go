// Package advisor proposes a rule set from evidence.
//
// A generator is asked with Evidence, a summary of at most 2,000 tokens, and answers with Advice: a whole rule set
// and a reason for each change, every figure in which is looked up in the evidence. `openai` asks any
// OpenAI-compatible endpoint; `local` asks no model and reasons from measurements.
package advisor

import (
	"context"
	"time"

	"retune/orchestrator/switchlog"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// Evidence is what a generator is told. It carries no names or URLs of backends and no secrets.
type Evidence struct {
	Cycle     int64         `json:"-"` // whose caps count its calls; never told. 0: none
	Champion  rules.RuleSet `json:"champion"`
	Profile   string        `json:"profile"`
	Scenarios []Measured    `json:"scenarios"` // under the champion, this cycle's baseline
	// Algorithms is what fixed algorithms measured in the same scenarios, where that is known.
	Algorithms []Measured `json:"algorithms,omitempty"`
	Series     []Point    `json:"series"` // snapshots at their turning points
	Switches   []Switch   `json:"switches"`
	Detection  *Detection `json:"detection,omitempty"` // nil: no scenario has a known truth
	Tried      []Attempt  `json:"tried"`               // earlier versions and how they were judged, newest first
	// Refuse says why a valid rule set would be refused before any load, each reason a sentence that a model can act on: it is handed
	// back in a repair turn. A rule set that is refused to the last turn is advice all the same, for the asker to refuse. nil: no
	// rule set is.
	Refuse func(context.Context, rules.RuleSet) []string `json:"-"`
}

// Measured is one arm in one scenario.
type Measured struct {
	Scenario  string            `json:"scenario"`
	Algorithm balance.Algorithm `json:"algorithm,omitempty"` // fixed; empty: the champion's rules
	RPS       float64           `json:"rps"`
	AvgMS     float64           `json:"avg_ms"`
	P95MS     float64           `json:"p95_ms"`
	P99MS     float64           `json:"p99_ms"`
	ErrorRate float64           `json:"error_rate"`
	// States is the share of windows that the proxy spent in each traffic state.
	States map[traffic.State]float64 `json:"states,omitempty"`
}

// Point is one turning point of the snapshot series.
type Point struct {
	Scenario      string            `json:"scenario"`
	AtS           float64           `json:"at_s"`
	RPS           float64           `json:"rps"`
	RPSChangeRate *float64          `json:"rps_change_rate"`
	AvgLatencyMS  float64           `json:"avg_latency_ms"`
	P95MS         float64           `json:"p95_ms"`
	ErrorRate     float64           `json:"error_rate"`
	State         traffic.State     `json:"state"`
	Algorithm     balance.Algorithm `json:"algorithm"`
}

// Switch is one change of algorithm, and what it brought.
type Switch = switchlog.Switch

// Figures are p95, RPS and error rate over a span.
type Figures = switchlog.Figures

// Attempt is an earlier version and how it was judged.
type Attempt struct {
	Version int      `json:"version"`
	Changes []string `json:"changes"` // in the words of the function Changes: "SPIKE: LEAST_CONNECTIONS → P2C_PEAK_EWMA"
	Outcome string   `json:"outcome"`
	Why     string   `json:"why"`
}

// Advice is a generator's proposal.
type Advice struct {
	Rules     rules.RuleSet         // whole, valid; its Version and Parent are not set
	Summary   string                // one or two sentences
	Reasons   []ruleversions.Reason // one per rule and per changed threshold, figures checked
	Origin    rules.Origin
	Author    string // model name, or "local"
	PromptSHA string // empty: no prompt
	Calls     []Call // every exchange that led here, the failed ones too
}

// Call is one exchange with a model. It never holds the key.
type Call struct {
	ID               int64         `json:"id,omitempty"` // in the store; 0: not there yet
	Provider         string        `json:"provider"`
	Model            string        `json:"model"`
	Temperature      float64       `json:"temperature"` // as sent; 0 also when none was sent
	PromptSHA        string        `json:"prompt_sha256"`
	Request          string        `json:"request"`  // JSON as sent, bounded
	Response         string        `json:"response"` // as received, bounded
	Outcome          CallOutcome   `json:"outcome"`
	Error            string        `json:"error,omitempty"`
	PromptTokens     int           `json:"prompt_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	CostUSD          *float64      `json:"cost_usd"`           // nil: unknown
	Prices           string        `json:"prices,omitempty"`   // the month of the price list that CostUSD is reckoned by
	MostTokens       int           `json:"most_tokens"`        // what it could use at most, as reckoned before it was made
	MostUSD          *float64      `json:"most_usd"`           // what that would cost; nil: the model's price is not known
	Replayed         string        `json:"replayed,omitempty"` // which exchange of a cassette answered; empty: the server did
	Latency          time.Duration `json:"latency_ns"`
	At               time.Time     `json:"at"`
}

// CallOutcome says how an exchange ended.
type CallOutcome string

// The outcomes of a call.
const (
	CallPending      CallOutcome = "pending" // it was about to be made; what came of it is not known
	CallOK           CallOutcome = "ok"
	CallInvalidJSON  CallOutcome = "invalid_json"
	CallInvalidRules CallOutcome = "invalid_rules"
	CallTimeout      CallOutcome = "timeout"
	CallHTTPError    CallOutcome = "http_error"
	CallRefused      CallOutcome = "refused"
	CallTruncated    CallOutcome = "truncated"
	CallEmpty        CallOutcome = "empty"
)
