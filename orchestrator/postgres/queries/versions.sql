-- name: LockVersions :exec
-- Numbers have no gaps: writers of versions take turns.
LOCK TABLE rule_version IN SHARE ROW EXCLUSIVE MODE;

-- name: LastVersion :one
SELECT coalesce(max(version), 0)::int FROM rule_version;

-- name: InsertVersion :one
INSERT INTO rule_version (version, parent, origin, author, yaml, sha256, summary, prompt_sha256, cycle_id)
VALUES (@version, @parent, @origin, @author, @yaml, @sha256, @summary, @prompt_sha256, @cycle_id)
RETURNING *;

-- name: InsertEntry :exec
INSERT INTO rule_entry (version, state, algorithm, params, reason) VALUES (@version, @state, @algorithm, @params, @reason);

-- name: InsertReason :exec
INSERT INTO rule_reason (version, seq, path, reason, unsupported) VALUES (@version, @seq, @path, @reason, @unsupported);

-- name: Versions :many
-- With what their status is derived from: the pointer, their cycle, and whether they were ever in force but on trial.
SELECT sqlc.embed(v), coalesce(c.status, '')::text AS cycle_status,
  coalesce(v.version = p.accepted, false)::bool AS accepted, coalesce(v.version = p.candidate, false)::bool AS on_trial,
  EXISTS (SELECT 1 FROM activation a WHERE a.version = v.version AND a.kind IN ('seed', 'manual'))::bool AS by_hand
FROM rule_version v LEFT JOIN cycle c ON c.id = v.cycle_id LEFT JOIN rule_pointer p ON true
WHERE v.version < @before ORDER BY v.version DESC LIMIT @lim;

-- name: Reasons :many
SELECT * FROM rule_reason WHERE version = any(@versions::int[]) ORDER BY version, seq;

-- name: Attempts :many
-- Candidates that were judged or at least tried, with the rules that they set out from, newest first.
SELECT v.version, v.yaml, p.yaml AS parent_yaml, c.status, c.verdict
FROM rule_version v JOIN rule_version p ON p.version = v.parent JOIN cycle c ON c.id = v.cycle_id
WHERE c.finished_at IS NOT NULL ORDER BY v.version DESC LIMIT @lim;
