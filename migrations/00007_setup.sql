-- What a cycle's figures depend on beside what was asked for: by it, what is known of the noise is told to be stale.
-- +goose Up

ALTER TABLE cycle ADD COLUMN setup jsonb NOT NULL DEFAULT '{}'; -- machine, driver, proxy's build, backends
