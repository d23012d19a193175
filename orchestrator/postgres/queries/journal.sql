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
  prompt_tokens, completion_tokens, cost_usd, prices, most_tokens, most_usd, replayed, latency_ns, at)
VALUES (@cycle_id, @version, @provider, @model, @temperature, @prompt_sha256, @request, @response, @outcome, @error,
  @prompt_tokens, @completion_tokens, @cost_usd, @prices, @most_tokens, @most_usd, @replayed, @latency_ns, @at);

-- name: LockSpending :exec
-- Those who may spend take turns.
SELECT pg_advisory_xact_lock(21078, 0);

-- name: ReserveCall :one
-- The day is the server's, so that those whose clocks differ share it.
INSERT INTO llm_call (cycle_id, provider, model, temperature, prompt_sha256, request, response, outcome, error,
  prompt_tokens, completion_tokens, most_tokens, most_usd, prices, latency_ns, at)
VALUES (@cycle_id, @provider, @model, @temperature, @prompt_sha256, @request, '', 'pending', '', 0, 0, @most_tokens, @most_usd, @prices, 0,
  clock_timestamp())
RETURNING id;

-- name: SettleCall :batchexec
UPDATE llm_call SET version = coalesce(@version, version), response = @response, outcome = @outcome, error = @error,
  prompt_tokens = @prompt_tokens, completion_tokens = @completion_tokens, cost_usd = @cost_usd, most_tokens = @most_tokens, most_usd = @most_usd, prices = @prices, latency_ns = @latency_ns
WHERE id = @id;

-- name: Spent :one
-- What the calls of a cycle, or of today (UTC) with cycle 0, came to. A call of which nothing is known counts with the
-- most that it may have taken; one that was refused may have taken nothing.
SELECT count(*) AS calls, coalesce(sum(cost_usd), 0)::float8 AS usd,
  count(*) FILTER (WHERE cost_usd IS NULL AND prompt_tokens + completion_tokens + most_tokens > 0) AS unknown,
  coalesce(sum(coalesce(cost_usd, most_usd)), 0)::float8 AS most_usd,
  coalesce(sum(CASE WHEN prompt_tokens + completion_tokens > 0 THEN prompt_tokens + completion_tokens ELSE most_tokens END), 0)::bigint AS tokens
FROM llm_call
WHERE replayed = '' AND CASE WHEN @cycle_id::bigint > 0 THEN cycle_id = @cycle_id
  ELSE at >= date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' END;

-- name: Calls :many
SELECT * FROM llm_call WHERE cycle_id = @cycle_id ORDER BY id;
