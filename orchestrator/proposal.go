package orchestrator

import (
	"fmt"
	"strings"

	"retune/orchestrator/advisor"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/ruleversions"
)

// Proposal is a rule set that was proposed within a cycle: a participant of its tournament. It becomes a version only
// when it is chosen to meet the champion.
type Proposal struct {
	Number  int                   `json:"proposal"` // within the cycle, from 1, in the order in which they came
	Origin  rules.Origin          `json:"origin"`
	Author  string                `json:"author"`
	Rules   rules.RuleSet         `json:"rules"`
	YAML    string                `json:"yaml"` // the bytes that proxies run while it is screened; its version's bytes if it becomes one
	Hash    rules.Hash            `json:"sha256"`
	Summary string                `json:"summary"`
	Reasons []ruleversions.Reason `json:"reasons"`
	Prompt  string                `json:"prompt_sha256,omitempty"`
	Changes []string              `json:"changes"` // over the champion, in words
	Remarks []rules.Remark        `json:"remarks"` // of the lint, and what earlier cycles know of the same rules
	Replay  steering.Report       `json:"replay"`  // over the baseline's snapshots
	Fate    Fate                  `json:"fate"`
	Why     string                `json:"why,omitempty"` // one sentence: why it was refused, beaten or chosen
	// Screening is how it did in the screening; nil: it was not in one.
	Screening *Screening `json:"screening,omitempty"`
	Version   int        `json:"version,omitempty"` // what it became; 0: none

	calls []advisor.Call // that led to it
}

// Fate is what became of a proposal.
type Fate string

// The fates of a proposal.
const (
	Entered Fate = "entered" // nothing is decided; what remains when the cycle ends early
	Refused Fate = "refused" // before any load
	Beaten  Fate = "beaten"  // another one was chosen
	Chosen  Fate = "chosen"  // it met the champion in full pairs
)

// Screening is a proposal's part in the short runs that choose between several. Its figures choose, and do nothing else:
// the best of several looks better than it is, so they never reach the judge.
type Screening struct {
	Place int `json:"place"` // by Score, from 1
	// Score is how much worse it did than the champion, in units of the judge's limits (see harm): negative is better.
	Score float64 `json:"score"`
	// Noise is how far two scores of the same rules may be apart by chance, in the same units.
	Noise     float64    `json:"noise"`
	Scenarios []Screened `json:"scenarios"`
}

// Screened is one scenario of a screening; figures are means over the rounds.
type Screened struct {
	Scenario string              `json:"scenario"`
	Champion verdict.Measurement `json:"champion"`
	Proposal verdict.Measurement `json:"proposal"`
	Harm     float64             `json:"harm"` // its part in the score, before the mean
}

// proposal is advice as a participant, numbered as the version that it would become.
func (u *turn) proposal(a advisor.Advice) Proposal {
	p := Proposal{Number: len(u.proposals) + 1, Origin: a.Origin, Author: a.Author, Rules: a.Rules, Summary: a.Summary, Reasons: a.Reasons,
		Prompt: a.PromptSHA, Fate: Entered, calls: a.Calls, Changes: advisor.Changes(u.champion.Rules, a.Rules)}
	p.Rules.Version, p.Rules.Parent, p.Rules.Origin = u.newest+1, u.champion.Number, a.Origin
	yaml := rules.Render(p.Rules)
	p.YAML, p.Hash = string(yaml), rules.Sum(yaml)
	return p
}

// draft is the proposal on its way to become a version.
func (p *Proposal) draft(cycle int64) ruleversions.Draft {
	return ruleversions.Draft{Parent: p.Rules.Parent, Origin: p.Origin, Author: p.Author, Rules: p.Rules, Summary: p.Summary,
		Reasons: p.Reasons, CycleID: cycle, Prompt: p.Prompt}
}

// version is the proposal as a target takes it.
func (p *Proposal) version() ruleversions.Version {
	return ruleversions.Version{Number: p.Rules.Version, Parent: p.Rules.Parent, Origin: p.Origin, Author: p.Author, Rules: p.Rules, YAML: p.YAML, Hash: p.Hash}
}

// name is how sentences call it.
func (p *Proposal) name() string { return fmt.Sprintf("proposal %d (%s)", p.Number, p.Author) }

// settle decides what becomes of it.
func (p *Proposal) settle(f Fate, format string, args ...any) {
	p.Fate, p.Why = f, fmt.Sprintf(format, args...)
}

// whyNone says why no proposal is worth a trial.
func whyNone(all []Proposal) string {
	if len(all) == 1 {
		return all[0].Why
	}
	var each []string
	for i := range all {
		each = append(each, all[i].name()+": "+all[i].Why)
	}
	return fmt.Sprintf("no change: none of %d proposals is worth a trial. %s", len(all), strings.Join(each, ". "))
}
