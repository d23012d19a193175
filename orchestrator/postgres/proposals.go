package postgres

import (
	"context"
	"errors"
	"fmt"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/postgres/queries"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// SaveProposals stores a cycle's proposals as they stand. What was proposed stays as it was stored first; fate, screening and
// version are the latest. ErrLost when the cycle is not this instance's any more.
func (s *Store) SaveProposals(ctx context.Context, cycle int64, all []orchestrator.Proposal) error {
	rows := make([]queries.SaveProposalParams, len(all))
	for i, p := range all {
		var err error
		if rows[i], err = proposalParams(cycle, p); err != nil {
			return fmt.Errorf("writing proposal %d of cycle %d: %w", p.Number, cycle, err)
		}
	}
	err := s.tx(ctx, func(q *queries.Queries) error {
		if _, err := s.own(ctx, q, cycle); err != nil {
			return err
		}
		return execAll(q.SaveProposal(ctx, rows))
	})
	if err != nil {
		return fmt.Errorf("storing the proposals of cycle %d: %w", cycle, err)
	}
	return nil
}

func proposalParams(cycle int64, p orchestrator.Proposal) (queries.SaveProposalParams, error) {
	row := queries.SaveProposalParams{
		CycleID: cycle, Number: p.Number, Origin: p.Origin, Author: clean(p.Author), Yaml: p.YAML, Sha256: p.Hash, Summary: clean(p.Summary),
		PromptSha256: p.Prompt, Changes: cleanAll(p.Changes), Fate: p.Fate, Why: clean(p.Why), Version: null(p.Version),
	}
	var errs [4]error
	row.Reasons, errs[0] = encode(p.Reasons)
	row.Remarks, errs[1] = encode(p.Remarks)
	row.Replay, errs[2] = encode(p.Replay)
	if p.Screening != nil {
		row.Screening, errs[3] = encode(p.Screening)
	}
	return row, errors.Join(errs[:]...)
}

// Proposals are a cycle's, in the order in which they came.
func (s *Store) Proposals(ctx context.Context, cycle int64) ([]orchestrator.Proposal, error) {
	rows, err := s.q.Proposals(ctx, cycle)
	if err != nil {
		return nil, fmt.Errorf("reading the proposals of cycle %d: %w", cycle, err)
	}
	list := make([]orchestrator.Proposal, len(rows))
	for i, r := range rows {
		if list[i], err = toProposal(r); err != nil {
			return nil, fmt.Errorf("reading what is stored of proposal %d of cycle %d: %w", r.Number, cycle, err)
		}
	}
	return list, nil
}

func toProposal(r queries.Proposal) (orchestrator.Proposal, error) {
	p := orchestrator.Proposal{
		Number: r.Number, Origin: r.Origin, Author: r.Author, YAML: r.Yaml, Hash: r.Sha256, Summary: r.Summary, Prompt: r.PromptSha256,
		Changes: r.Changes, Fate: r.Fate, Why: r.Why, Version: value(r.Version),
	}
	set, err := rules.Parse(fmt.Sprintf("proposal %d", r.Number), []byte(r.Yaml))
	p.Rules = set
	return p, errors.Join(err, decode(r.Reasons, &p.Reasons), decode(r.Remarks, &p.Remarks), decode(r.Replay, &p.Replay), decode(r.Screening, &p.Screening))
}

// Judged are the candidates of all cycles with a verdict that make a proxy behave as rs does, newest first. The database finds those
// with the same algorithms, of which there are few; one whose stored rules are refused today is left out.
func (s *Store) Judged(ctx context.Context, rs rules.RuleSet) ([]advisor.Attempt, error) {
	named := map[traffic.State]balance.Algorithm{}
	for state, rule := range rs.Rules {
		named[state] = rule.Algorithm
	}
	algorithms, err := encode(named)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.JudgedAlike(ctx, algorithms)
	if err != nil {
		return nil, fmt.Errorf("reading how equal candidates were judged: %w", err)
	}
	var list []advisor.Attempt
	for _, r := range rows {
		was, err := rules.Parse(fmt.Sprintf("v%d", r.Version), []byte(r.Yaml))
		if err != nil {
			s.log.Warn("an earlier candidate is left out: its rules are refused today", "version", r.Version, "error", err)
		} else if rules.Same(was, rs) {
			list = append(list, advisor.Attempt{Version: r.Version, Outcome: string(r.Status), Why: r.Why})
		}
	}
	return list, nil
}
