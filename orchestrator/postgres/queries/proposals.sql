-- name: SaveProposal :batchexec
INSERT INTO proposal (cycle_id, number, origin, author, yaml, sha256, summary, prompt_sha256, reasons, changes, remarks, replay,
  fate, why, screening, version)
VALUES (@cycle_id, @number, @origin, @author, @yaml, @sha256, @summary, @prompt_sha256, @reasons, @changes, @remarks, @replay,
  @fate, @why, @screening, @version)
ON CONFLICT (cycle_id, number) DO UPDATE
SET fate = excluded.fate, why = excluded.why, screening = excluded.screening, version = excluded.version;

-- name: Proposals :many
SELECT * FROM proposal WHERE cycle_id = @cycle_id ORDER BY number;

-- name: JudgedAlike :many
-- Candidates of all cycles with a verdict that name the same algorithm in every state, newest first.
SELECT v.version, v.yaml, c.status, c.why
FROM rule_version v JOIN cycle c ON c.id = v.cycle_id
WHERE c.status IN ('kept', 'rolled_back', 'inconclusive')
  AND (SELECT jsonb_object_agg(e.state, e.algorithm) FROM rule_entry e WHERE e.version = v.version) = @algorithms::jsonb
ORDER BY v.version DESC;
