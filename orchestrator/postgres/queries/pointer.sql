-- name: Pointer :one
SELECT p.*, v.sha256, (SELECT coalesce(max(n.version), 0) FROM rule_version n)::int AS newest
FROM rule_pointer p JOIN rule_version v ON v.version = p.desired;

-- name: LockPointer :one
SELECT p.*, v.sha256, (SELECT coalesce(max(n.version), 0) FROM rule_version n)::int AS newest
FROM rule_pointer p JOIN rule_version v ON v.version = p.desired FOR UPDATE OF p;

-- name: InsertPointer :exec
INSERT INTO rule_pointer (accepted, desired, generation) VALUES (@version, @version, @generation);

-- name: UpdatePointer :exec
UPDATE rule_pointer SET accepted = @accepted, desired = @desired, generation = @generation,
  trial_cycle = @trial_cycle, candidate = @candidate, proposal = @proposal;

-- name: InsertActivation :exec
INSERT INTO activation (generation, version, previous, kind, cycle_id, proposal, actor, reason)
VALUES (@generation, @version, @previous, @kind, @cycle_id, @proposal, @actor, @reason);

-- name: PointerApplied :execrows
-- A proposal is no version: the last that was confirmed stays.
UPDATE rule_pointer SET applied = CASE WHEN proposal IS NULL THEN @version::int ELSE applied END, applied_gen = generation WHERE generation = @generation AND desired = @version;

-- name: ActivationApplied :exec
UPDATE activation SET applied_at = clock_timestamp() WHERE generation = @generation AND applied_at IS NULL;

-- name: Activations :many
-- Without the turns that champion, candidate and proposals take within trials, unless these are asked for.
SELECT * FROM activation WHERE @turns::bool OR kind NOT IN ('swap', 'screen') ORDER BY generation DESC LIMIT @lim;

-- name: StrayTrial :one
-- Whether a trial is on whose cycle has ended.
SELECT EXISTS (SELECT 1 FROM rule_pointer p JOIN cycle c ON c.id = p.trial_cycle WHERE c.finished_at IS NOT NULL);
