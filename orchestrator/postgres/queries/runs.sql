-- name: InsertRun :one
INSERT INTO run (cycle_id, machine, scenario, hold_out, arm, pair, version, proposal, algorithm, seed, driver, driver_version, started_at,
  duration_ns, planned, requests, failed, dropped, rps, error_rate, avg_ms, p50_ms, p90_ms, p95_ms, p99_ms, max_ms,
  marks, status_counts, histogram, exit_code, driver_cpu, log, invalid)
VALUES (@cycle_id, @machine, @scenario, @hold_out, @arm, @pair, @version, @proposal, @algorithm, @seed, @driver, @driver_version, @started_at,
  @duration_ns, @planned, @requests, @failed, @dropped, @rps, @error_rate, @avg_ms, @p50_ms, @p90_ms, @p95_ms, @p99_ms, @max_ms,
  @marks, @status_counts, @histogram, @exit_code, @driver_cpu, @log, @invalid)
RETURNING id;

-- name: InsertSeries :copyfrom
INSERT INTO run_series (run_id, metric, points) VALUES (@run_id, @metric, @points);

-- name: SetAside :execrows
UPDATE run SET invalid = array_append(invalid, @why::text) WHERE id = @id;

-- name: Runs :many
SELECT * FROM run WHERE cycle_id = @cycle_id ORDER BY id;

-- name: Run :one
SELECT * FROM run WHERE id = @id;

-- name: Series :many
SELECT * FROM run_series WHERE run_id = @run_id;

-- name: PairedRuns :many
-- The newest valid halves of pairs on a machine before a run, from which its noise is known.
SELECT r.id, r.cycle_id, c.kind, c.profile, r.driver, r.scenario, r.arm, r.pair, r.requests, r.rps, r.p95_ms, r.error_rate, r.created_at
FROM run r JOIN cycle c ON c.id = r.cycle_id
WHERE r.machine = @machine AND r.pair > 0 AND cardinality(r.invalid) = 0 AND r.id < @before
  AND (r.arm = 'champion' OR r.arm = 'candidate' AND (c.kind = 'calibrate' OR r.version IS NOT DISTINCT FROM c.candidate))
ORDER BY r.id DESC LIMIT @lim;

-- name: FirstPairedRun :one
SELECT id, machine FROM run WHERE cycle_id = @cycle_id AND pair > 0 ORDER BY id LIMIT 1;
