-- Which runs were of a scenario that is held out: judged, but never shown to a generator.
-- +goose Up
ALTER TABLE run ADD COLUMN hold_out boolean NOT NULL DEFAULT false;
