-- name: SaveDetection :exec
INSERT INTO detection (run_id, report) VALUES (@run_id, @report)
ON CONFLICT (run_id) DO UPDATE SET report = excluded.report;

-- name: Detections :many
SELECT r.id, r.arm, r.version, d.report FROM detection d JOIN run r ON r.id = d.run_id WHERE r.cycle_id = @cycle_id ORDER BY r.id;
