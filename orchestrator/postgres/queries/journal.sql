-- name: SaveDecision :batchexec
-- The first to read a decision stores it; a later reader may still say which run it belongs to.
INSERT INTO decision (boot_id, seq, at, cycle_id, run_id, state, previous_state, algorithm, previous_algorithm, switched,
  confidence, reason, gates, rules_version, cause, snapshot)
VALUES (@boot_id, @seq, @at, @cycle_id, @run_id, @state, @previous_state, @algorithm, @previous_algorithm, @switched,
  @confidence, @reason, @gates, @rules_version, @cause, @snapshot)
ON CONFLICT (boot_id, seq) DO UPDATE
SET cycle_id = coalesce(decision.cycle_id, excluded.cycle_id), run_id = coalesce(decision.run_id, excluded.run_id)
WHERE (decision.cycle_id IS NULL AND excluded.cycle_id IS NOT NULL) OR (decision.run_id IS NULL AND excluded.run_id IS NOT NULL);

-- name: SaveSnapshot :batchexec
INSERT INTO snapshot (at, seq, cycle_id, run_id, snapshot) VALUES (@at, @seq, @cycle_id, @run_id, @snapshot)
ON CONFLICT (at, seq) DO UPDATE
SET cycle_id = coalesce(snapshot.cycle_id, excluded.cycle_id), run_id = coalesce(snapshot.run_id, excluded.run_id)
WHERE (snapshot.cycle_id IS NULL AND excluded.cycle_id IS NOT NULL) OR (snapshot.run_id IS NULL AND excluded.run_id IS NOT NULL);

-- name: Decisions :many
SELECT * FROM decision WHERE cycle_id = @cycle_id ORDER BY at, seq;

-- name: Snapshots :many
SELECT snapshot FROM snapshot WHERE cycle_id = @cycle_id ORDER BY at, seq;

-- name: InsertCall :batchexec
INSERT INTO llm_call (cycle_id, version, provider, model, temperature, prompt_sha256, request, response, outcome, error,
  prompt_tokens, completion_tokens, cost_usd, latency_ns, at)
VALUES (@cycle_id, @version, @provider, @model, @temperature, @prompt_sha256, @request, @response, @outcome, @error,
  @prompt_tokens, @completion_tokens, @cost_usd, @latency_ns, @at);

-- name: Calls :many
SELECT * FROM llm_call WHERE cycle_id = @cycle_id ORDER BY id;
