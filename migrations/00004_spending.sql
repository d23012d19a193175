-- What a call of a model may take is set aside before it is made; caps go by what stands here.
-- +goose Up

ALTER TABLE llm_call
  ADD COLUMN most_tokens bigint NOT NULL DEFAULT 0, -- what it could use at most, as reckoned before it was made
  ADD COLUMN most_usd    double precision,          -- what that would cost; null: no price is known
  ADD COLUMN prices      text NOT NULL DEFAULT '',  -- the month of the price list
  ADD COLUMN replayed    text NOT NULL DEFAULT '',  -- which exchange of a cassette answered; empty: a server did
  DROP CONSTRAINT llm_call_outcome_check,
  ADD CONSTRAINT llm_call_outcome_check CHECK (outcome IN (
    'pending', 'ok', 'invalid_json', 'invalid_rules', 'timeout', 'http_error', 'refused', 'truncated', 'empty'));
UPDATE llm_call SET prices = '2025-08' WHERE cost_usd IS NOT NULL;
CREATE INDEX llm_call_at ON llm_call (at);

ALTER TABLE cycle ADD COLUMN replay text NOT NULL DEFAULT ''; -- the cassette that is asked instead of a model
