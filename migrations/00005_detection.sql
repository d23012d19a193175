-- How the proxies' detection named the traffic of each run, against the truth of the scenario's timeline.
-- +goose Up

-- The truth is kept, not the shape that it came of: a user's own scenario may be another one tomorrow.
CREATE TABLE detection (
  run_id bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,
  report jsonb NOT NULL
);
