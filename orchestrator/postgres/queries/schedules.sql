-- name: Schedules :many
SELECT * FROM schedule ORDER BY name;

-- name: Schedule :one
SELECT * FROM schedule WHERE id = @id;

-- name: InsertSchedule :one
INSERT INTO schedule (name, cron, time_zone, profile, generator, driver, missed, enabled, next_run_at)
VALUES (@name, @cron, @time_zone, @profile, @generator, @driver, @missed, @enabled, @next_run_at)
RETURNING *;

-- name: UpdateSchedule :one
UPDATE schedule SET name = @name, cron = @cron, time_zone = @time_zone, profile = @profile, generator = @generator,
  driver = @driver, missed = @missed, enabled = @enabled, next_run_at = @next_run_at
WHERE id = @id RETURNING *;

-- name: DeleteSchedule :execrows
DELETE FROM schedule WHERE id = @id;

-- name: DueSchedules :many
SELECT * FROM schedule WHERE enabled AND next_run_at <= @now ORDER BY next_run_at, id FOR UPDATE SKIP LOCKED;

-- name: OpenCycleOfSchedule :one
SELECT * FROM cycle WHERE schedule_id = @schedule_id AND finished_at IS NULL ORDER BY id LIMIT 1;

-- name: ScheduleRan :exec
UPDATE schedule SET last_run_at = @ran_at, last_cycle_id = @cycle_id, last_note = @note WHERE id = @id;

-- name: ScheduleNext :exec
UPDATE schedule SET next_run_at = @next_run_at WHERE id = @id;

-- name: ScheduleNote :exec
UPDATE schedule SET last_note = @note WHERE id = @id;

-- name: ScheduleStop :exec
UPDATE schedule SET enabled = false, next_run_at = NULL, last_note = @note WHERE id = @id;
