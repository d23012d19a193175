package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"retune/orchestrator"
	"retune/orchestrator/postgres/queries"
	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// Seed makes the first version and puts it in force, with a generation over those that proxies were given before by another
// archive. When there is a version already it changes nothing. Either way it
// returns the pointer.
func (s *Store) Seed(ctx context.Context, set rules.RuleSet, after int64) (orchestrator.Pointer, error) {
	err := s.tx(ctx, func(q *queries.Queries) error {
		if err := q.LockVersions(ctx); err != nil {
			return err
		}
		if _, err := q.Pointer(ctx); !errors.Is(found(err), orchestrator.ErrNotFound) {
			return err
		}
		v, err := insertVersion(ctx, q, ruleversions.Draft{Origin: rules.OriginHuman, Author: "retune", Rules: set, Summary: "What the proxy ran when Retune first saw it."})
		if err != nil {
			return err
		}
		if err := q.InsertPointer(ctx, queries.InsertPointerParams{Version: v.Version, Generation: after + 1}); err != nil {
			return err
		}
		return q.InsertActivation(ctx, queries.InsertActivationParams{
			Generation: after + 1, Version: v.Version, Kind: orchestrator.MoveSeed, Actor: "retune", Reason: "first start",
		})
	})
	if err != nil {
		return orchestrator.Pointer{}, fmt.Errorf("making the first version: %w", err)
	}
	return s.Pointer(ctx)
}

// Append makes a draft the next version: numbered without gaps, rendered with its number, and immutable from then
// on. ErrStale when its parent is not the accepted version, ErrNotFound before the first version, ErrLost when it is of a
// cycle that is not this instance's any more.
func (s *Store) Append(ctx context.Context, d ruleversions.Draft) (ruleversions.Version, error) {
	var number int
	err := s.tx(ctx, func(q *queries.Queries) (err error) {
		number, err = s.appendDraft(ctx, q, d)
		return err
	})
	if err != nil {
		return ruleversions.Version{}, fmt.Errorf("storing a new version: %w", err)
	}
	return s.Version(ctx, number)
}

// Propose stores a human's rule file as a version and makes it active, in one step. ErrSame together with the active version
// when that does the same already, unless forced; ErrTrial during a trial, ErrStale when its parent is not the accepted version.
func (s *Store) Propose(ctx context.Context, d ruleversions.Draft, force bool) (ruleversions.Version, error) {
	var number int
	var same bool
	err := s.tx(ctx, func(q *queries.Queries) (err error) {
		if !force {
			if number, same, err = inForce(ctx, q, d.Rules); err != nil || same {
				return err
			}
		}
		if number, err = s.appendDraft(ctx, q, d); err != nil {
			return err
		}
		_, err = s.move(ctx, q, orchestrator.Move{Kind: orchestrator.MoveManual, Version: number, Actor: d.Author, Reason: d.Summary})
		return err
	})
	if err != nil {
		return ruleversions.Version{}, fmt.Errorf("making a rule file the active version: %w", err)
	}
	v, err := s.Version(ctx, number)
	if err == nil && same {
		err = fmt.Errorf("v%d: %w", number, orchestrator.ErrSame)
	}
	return v, err
}

// inForce reports whether the accepted version does what rs does, and no trial is on; it holds the pointer's lock.
func inForce(ctx context.Context, q *queries.Queries, rs rules.RuleSet) (number int, same bool, err error) {
	if err := q.LockVersions(ctx); err != nil { // before the pointer, as everywhere
		return 0, false, err
	}
	p, err := q.LockPointer(ctx)
	if err != nil || p.TrialCycle != nil {
		return 0, false, found(err)
	}
	rows, err := q.Versions(ctx, queries.VersionsParams{Before: p.Accepted + 1, Lim: 1})
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	v, err := toVersion(rows[0])
	return p.Accepted, err == nil && rules.Same(v.Rules, rs), err
}

// appendDraft holds the versions' lock and the pointer's until the transaction ends.
func (s *Store) appendDraft(ctx context.Context, q *queries.Queries, d ruleversions.Draft) (number int, err error) {
	if err := q.LockVersions(ctx); err != nil {
		return 0, err
	}
	p, err := q.LockPointer(ctx)
	if err != nil {
		return 0, found(err)
	}
	if d.Parent != p.Accepted {
		return 0, fmt.Errorf("%w: v%d is, not v%d", orchestrator.ErrStale, p.Accepted, d.Parent)
	}
	if d.CycleID != 0 {
		if _, err := s.own(ctx, q, d.CycleID); err != nil {
			return 0, err
		}
	}
	v, err := insertVersion(ctx, q, d)
	return v.Version, err
}

// insertVersion gives a draft its number and stores it with its rows. The versions' lock is held.
func insertVersion(ctx context.Context, q *queries.Queries, d ruleversions.Draft) (queries.RuleVersion, error) {
	last, err := q.LastVersion(ctx)
	if err != nil {
		return queries.RuleVersion{}, err
	}
	if err := brief(d.Author, d.Summary); err != nil {
		return queries.RuleVersion{}, err
	}
	d.Rules.Version, d.Rules.Parent, d.Rules.Origin = last+1, d.Parent, d.Origin
	yaml := rules.Render(d.Rules)
	if _, err := rules.Parse("the draft", yaml); err != nil { // what is stored is for good
		return queries.RuleVersion{}, fmt.Errorf("%w: %w", orchestrator.ErrInvalid, err)
	}
	v, err := q.InsertVersion(ctx, queries.InsertVersionParams{
		Version: last + 1, Parent: null(d.Parent), Origin: d.Origin, Author: clean(d.Author),
		Yaml: string(yaml), Sha256: rules.Sum(yaml), Summary: clean(d.Summary), PromptSha256: d.Prompt, CycleID: null(d.CycleID),
	})
	if codeOf(err) == foreignKeyViolation {
		return v, fmt.Errorf("%w: cycle %d", orchestrator.ErrNotFound, d.CycleID)
	}
	if err != nil {
		return v, err
	}
	for _, state := range traffic.States() {
		if err := insertEntry(ctx, q, v.Version, state, d.Rules.Rules[state]); err != nil {
			return v, err
		}
	}
	for i, r := range d.Reasons {
		if err := q.InsertReason(ctx, queries.InsertReasonParams{
			Version: v.Version, Seq: i + 1, Path: clean(r.Path), Reason: clean(r.Text), Unsupported: cleanAll(r.Unsupported),
		}); err != nil {
			return v, err
		}
	}
	return v, nil
}

func insertEntry(ctx context.Context, q *queries.Queries, version int, state traffic.State, r rules.Rule) error {
	params, err := encode(r.Params)
	if err != nil {
		return err
	}
	return q.InsertEntry(ctx, queries.InsertEntryParams{
		Version: version, State: string(state), Algorithm: string(r.Algorithm), Params: params, Reason: clean(r.Reason),
	})
}

// Version is one version; ErrNotFound when there is none of that number.
func (s *Store) Version(ctx context.Context, n int) (ruleversions.Version, error) {
	if !numbered(n) {
		return ruleversions.Version{}, fmt.Errorf("version v%d: %w", n, orchestrator.ErrNotFound)
	}
	list, err := s.Versions(ctx, 1, n+1)
	if err != nil {
		return ruleversions.Version{}, err
	}
	if len(list) == 0 || list[0].Number != n {
		return ruleversions.Version{}, fmt.Errorf("version v%d: %w", n, orchestrator.ErrNotFound)
	}
	return list[0], nil
}

// numbered reports whether a version can have the number; a column holds no greater one.
func numbered(n int) bool { return n >= 1 && n < math.MaxInt32 }

// Versions are the newest first: at most limit of those before a number; 0, or what is no
// number of a version: from the newest.
func (s *Store) Versions(ctx context.Context, limit, before int) ([]ruleversions.Version, error) {
	if !numbered(before) {
		before = math.MaxInt32
	}
	rows, err := s.q.Versions(ctx, queries.VersionsParams{Before: before, Lim: limited(limit)})
	if err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	numbers := make([]int, len(rows))
	for i, r := range rows {
		numbers[i] = r.RuleVersion.Version
	}
	reasons, err := s.q.Reasons(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("reading versions' reasons: %w", err)
	}
	of := map[int][]ruleversions.Reason{}
	for _, r := range reasons {
		of[r.Version] = append(of[r.Version], ruleversions.Reason{Path: r.Path, Text: r.Reason, Unsupported: r.Unsupported})
	}
	list := make([]ruleversions.Version, len(rows))
	for i, r := range rows {
		if list[i], err = toVersion(r); err != nil {
			return nil, err
		}
		list[i].Reasons = of[r.RuleVersion.Version]
	}
	return list, nil
}

func toVersion(r queries.VersionsRow) (ruleversions.Version, error) {
	v := r.RuleVersion
	set, err := rules.Parse(fmt.Sprintf("v%d", v.Version), []byte(v.Yaml))
	if err != nil {
		return ruleversions.Version{}, fmt.Errorf("reading the stored rules of v%d: %w", v.Version, err)
	}
	return ruleversions.Version{
		Number: v.Version, Parent: value(v.Parent), Origin: v.Origin, Author: v.Author, Rules: set, YAML: v.Yaml, Hash: v.Sha256,
		Summary: v.Summary, CycleID: value(v.CycleID), Prompt: v.PromptSha256, Created: v.CreatedAt, Status: statusOf(r),
	}, nil
}

// statusOf derives how a version stands from the pointer and its cycle.
func statusOf(r queries.VersionsRow) ruleversions.Status {
	switch {
	case r.Accepted:
		return ruleversions.StatusActive
	case r.OnTrial:
		return ruleversions.StatusOnTrial
	}
	switch orchestrator.Status(r.CycleStatus) {
	case orchestrator.Kept:
		return ruleversions.StatusKept
	case orchestrator.RolledBack:
		return ruleversions.StatusRolledBack
	case orchestrator.Inconclusive:
		return ruleversions.StatusInconclusive
	}
	if r.ByHand {
		return ruleversions.StatusRetired
	}
	return ruleversions.StatusUnproved
}
