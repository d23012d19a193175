package postgres

import (
	"context"
	"fmt"

	"retune/orchestrator/advisor"
	"retune/orchestrator/postgres/queries"
	"retune/orchestrator/verdict"
	"retune/proxy/rules"
)

// Attempts are earlier candidates, what they changed and how they were judged, newest first. One whose
// stored rules are refused today is left out. Why is a verdict's, as a generator may know it; what else ended a cycle may
// name backends and scenarios, and tells nothing of the rules.
func (s *Store) Attempts(ctx context.Context, limit int) ([]advisor.Attempt, error) {
	rows, err := s.q.Attempts(ctx, limited(limit))
	if err != nil {
		return nil, fmt.Errorf("reading earlier candidates: %w", err)
	}
	list := make([]advisor.Attempt, 0, len(rows))
	for _, r := range rows {
		changed, err := changes(r)
		if err != nil {
			s.log.Warn("an earlier candidate is left out: its rules, or its parent's, are refused today", "version", r.Version, "error", err)
			continue
		}
		why, err := told(r)
		if err != nil {
			return nil, fmt.Errorf("reading how v%d was judged: %w", r.Version, err)
		}
		list = append(list, advisor.Attempt{Version: r.Version, Changes: changed, Outcome: string(r.Status), Why: why})
	}
	return list, nil
}

// told is why a candidate was judged as it was.
func told(r queries.AttemptsRow) (string, error) {
	if len(r.Verdict) == 0 {
		return "the trial ended without a verdict", nil
	}
	var v verdict.Verdict
	err := decode(r.Verdict, &v)
	return v.Told(), err
}

// changes are what a candidate changed, in the words in which a generator looks its next idea up.
func changes(r queries.AttemptsRow) ([]string, error) {
	before, err := rules.Parse("parent", []byte(r.ParentYaml))
	if err != nil {
		return nil, err
	}
	after, err := rules.Parse(fmt.Sprintf("v%d", r.Version), []byte(r.Yaml))
	if err != nil {
		return nil, err
	}
	return advisor.Changes(before, after), nil
}
