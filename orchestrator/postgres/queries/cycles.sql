-- name: LockTarget :exec
-- Those who queue for one target take turns.
SELECT pg_advisory_xact_lock(21077, hashtext(@target::text));

-- name: OpenCycle :one
SELECT * FROM cycle WHERE target = @target AND finished_at IS NULL ORDER BY (status = 'queued'), id LIMIT 1;

-- name: InsertCycle :one
INSERT INTO cycle (kind, trigger, actor, schedule_id, target, profile, generator, driver, scenarios, limits, proposal, replay, force)
VALUES (@kind, @trigger, @actor, @schedule_id, @target, @profile, @generator, @driver, @scenarios, @limits, @proposal, @replay, @force)
RETURNING *;

-- name: Cycle :one
SELECT * FROM cycle WHERE id = @id;

-- name: LockCycle :one
SELECT * FROM cycle WHERE id = @id FOR UPDATE;

-- name: Cycles :many
SELECT * FROM cycle WHERE id < @before ORDER BY id DESC LIMIT @lim;

-- name: SaveCycle :exec
UPDATE cycle SET status = @status, driver = @driver, scenarios = @scenarios, champion = @champion, candidate = @candidate,
  evidence = @evidence, verdict = @verdict, why = @why,
  setup = @setup,
  finished_at = CASE WHEN @ended::bool THEN clock_timestamp() END
WHERE id = @id;

-- name: EndCycle :one
UPDATE cycle SET status = @status, why = @why, finished_at = clock_timestamp() WHERE id = @id RETURNING *;

-- name: ClaimCycle :one
UPDATE cycle SET status = 'baseline', owner = @owner::int, started_at = clock_timestamp()
WHERE id = (
  SELECT q.id FROM cycle q
  WHERE q.status = 'queued' AND NOT EXISTS (
    SELECT 1 FROM cycle r WHERE r.target = q.target AND r.finished_at IS NULL AND r.status <> 'queued')
  ORDER BY q.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: DeadCycles :many
-- Running cycles whose owner's session is gone, and those of an owner that runs none.
SELECT c.id FROM cycle c
WHERE c.finished_at IS NULL AND c.owner IS NOT NULL AND (c.owner = @me::int OR NOT EXISTS (
  SELECT 1 FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.classid = 21076::oid AND l.objid = c.owner::oid AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())))
ORDER BY c.id;

-- name: EndSilentSessions :many
-- Ends the connections of other instances that own a running cycle and have said nothing for so long: a stopped process
-- says nothing, yet its session's lock stays, and those of a transaction that it has open.
SELECT c.owner::int AS instance, pg_terminate_backend(its.pid) AS ended
FROM cycle c
JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 21076::oid AND l.objid = c.owner::oid AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
JOIN pg_stat_activity a ON a.pid = l.pid
JOIN pg_stat_activity its ON its.pid = a.pid OR (its.application_name = a.application_name AND its.application_name LIKE 'retune-%')
WHERE c.finished_at IS NULL AND c.owner <> @me::int AND a.state_change < clock_timestamp() - make_interval(secs => @silence::float8);

-- name: AdoptCycle :one
-- The first who takes a cycle over says why it will have ended.
UPDATE cycle SET owner = @owner::int, why = CASE why WHEN '' THEN @why ELSE why END WHERE id = @id RETURNING *;

-- name: RequestCancel :exec
UPDATE cycle SET cancel_requested = true WHERE id = @id;

-- name: CloseStep :exec
UPDATE cycle_step SET finished_at = clock_timestamp() WHERE cycle_id = @cycle_id AND finished_at IS NULL;

-- name: OpenStep :exec
-- An end is a step that takes no time.
INSERT INTO cycle_step (cycle_id, seq, name, detail, finished_at)
SELECT @cycle_id, coalesce(max(seq), 0) + 1, @name, @detail, CASE WHEN @ended::bool THEN clock_timestamp() END
FROM cycle_step WHERE cycle_id = @cycle_id;

-- name: DetailStep :exec
UPDATE cycle_step SET detail = @detail WHERE cycle_id = @cycle_id AND finished_at IS NULL;

-- name: Steps :many
SELECT * FROM cycle_step WHERE cycle_id = @cycle_id ORDER BY seq;

-- name: SaveLive :exec
INSERT INTO cycle_live (cycle_id, live) VALUES (@cycle_id, @live)
ON CONFLICT (cycle_id) DO UPDATE SET live = excluded.live;

-- name: Live :one
SELECT live FROM cycle_live WHERE cycle_id = @cycle_id;

-- name: NewInstance :one
SELECT nextval('instance_seq')::int;

-- name: HoldInstance :exec
SELECT pg_advisory_lock(21076, @instance::int);
