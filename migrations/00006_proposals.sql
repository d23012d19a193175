-- What was proposed in a cycle, whatever became of it. Only the proposal that is chosen for the trial becomes a version.
-- +goose Up

CREATE TABLE proposal (
  cycle_id      bigint NOT NULL REFERENCES cycle ON DELETE CASCADE,
  number        int NOT NULL CHECK (number >= 1),   -- within the cycle, in the order in which they came
  origin        text NOT NULL CHECK (origin IN ('llm', 'local', 'human')),
  author        text NOT NULL,
  yaml          text NOT NULL CHECK (octet_length(yaml) <= 65536),   -- the bytes that proxies run while it is screened
  sha256        text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),     -- of yaml
  summary       text NOT NULL,
  prompt_sha256 text NOT NULL CHECK (prompt_sha256 ~ '^([0-9a-f]{64})?$'),
  reasons       jsonb NOT NULL,
  changes       text[] NOT NULL,
  remarks      jsonb NOT NULL,
  replay        jsonb NOT NULL,
  fate          text NOT NULL CHECK (fate IN ('entered', 'refused', 'beaten', 'chosen')),
  why           text NOT NULL,
  screening     jsonb,                              -- null: it was not screened
  version       int REFERENCES rule_version,        -- what it became
  PRIMARY KEY (cycle_id, number),
  CHECK (version IS NULL OR fate = 'chosen')
);

-- A run under a proposal has no version.
ALTER TABLE run ADD COLUMN proposal int;
ALTER TABLE run ADD FOREIGN KEY (cycle_id, proposal) REFERENCES proposal;
ALTER TABLE run ADD CHECK (version IS NULL OR proposal IS NULL);

-- A screening is a trial without a candidate: proxies run the champion or the proposal that is named, in memory alone.
ALTER TABLE rule_pointer ADD COLUMN proposal int;
ALTER TABLE rule_pointer ADD FOREIGN KEY (trial_cycle, proposal) REFERENCES proposal;
ALTER TABLE rule_pointer DROP CONSTRAINT rule_pointer_check; -- that only a candidate makes a trial
ALTER TABLE rule_pointer ADD CHECK (trial_cycle IS NOT NULL OR (candidate IS NULL AND proposal IS NULL));
ALTER TABLE rule_pointer ADD CHECK (candidate IS NULL OR proposal IS NULL);

ALTER TABLE activation ADD COLUMN proposal int;
ALTER TABLE activation ADD FOREIGN KEY (cycle_id, proposal) REFERENCES proposal;
ALTER TABLE activation DROP CONSTRAINT activation_kind_check;
ALTER TABLE activation ADD CONSTRAINT activation_kind_check CHECK (
  kind IN ('seed', 'screen', 'trial', 'swap', 'accept', 'rollback', 'manual', 'crash_rollback'));
