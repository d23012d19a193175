-- Rule versions are immutable and numbered without gaps; the pointer says which one is in force.
-- +goose Up

CREATE TABLE rule_version (
  version       int PRIMARY KEY CHECK (version >= 1),
  parent        int REFERENCES rule_version,
  origin        text NOT NULL CHECK (origin IN ('llm', 'local', 'human')),
  author        text NOT NULL,
  yaml          text NOT NULL CHECK (octet_length(yaml) <= 65536),     -- the bytes that proxies run
  sha256        text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),       -- of yaml
  summary       text NOT NULL,
  prompt_sha256 text NOT NULL CHECK (prompt_sha256 ~ '^([0-9a-f]{64})?$'),
  cycle_id      bigint REFERENCES cycle,
  created_at    timestamptz NOT NULL DEFAULT now(),
  CHECK ((parent IS NULL) = (version = 1)),
  CHECK (parent < version)
);
CREATE INDEX rule_version_cycle ON rule_version (cycle_id) WHERE cycle_id IS NOT NULL;

-- What yaml says, state by state, for queries.
CREATE TABLE rule_entry (
  version   int NOT NULL REFERENCES rule_version,
  state     text NOT NULL CHECK (state IN ('LOW_TRAFFIC', 'HIGH_STABLE', 'GRADUAL_INCREASE', 'SPIKE', 'OVERLOADED_NODE')),
  algorithm text NOT NULL CHECK (algorithm <> ''),
  params    jsonb NOT NULL,
  reason    text NOT NULL,
  PRIMARY KEY (version, state)
);

-- Why each part is as it is, thresholds too.
CREATE TABLE rule_reason (
  version     int NOT NULL REFERENCES rule_version,
  seq         int NOT NULL CHECK (seq >= 1),
  path        text NOT NULL,                        -- e.g. rules.SPIKE or detection.spike_rate
  reason      text NOT NULL,
  unsupported text[] NOT NULL DEFAULT '{}',         -- figures that are not in the evidence
  PRIMARY KEY (version, seq)
);

-- +goose StatementBegin
CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rule_version FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rule_entry FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rule_reason FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

ALTER TABLE cycle ADD FOREIGN KEY (champion) REFERENCES rule_version;
ALTER TABLE cycle ADD FOREIGN KEY (candidate) REFERENCES rule_version;

-- One row. Accepted was proved or chosen by hand, desired is what proxies should run now. They may differ during a
-- trial only, in which desired goes to and fro between accepted and candidate.
CREATE TABLE rule_pointer (
  singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  accepted    int NOT NULL REFERENCES rule_version,
  desired     int NOT NULL REFERENCES rule_version,
  generation  bigint NOT NULL,                      -- grows with every move; proxies refuse a lower one
  trial_cycle bigint REFERENCES cycle,
  candidate   int REFERENCES rule_version,          -- of the trial
  applied     int REFERENCES rule_version,          -- the last that the target confirmed
  applied_gen bigint NOT NULL DEFAULT 0,
  CHECK ((trial_cycle IS NULL) = (candidate IS NULL)),
  CHECK (desired = accepted OR (candidate IS NOT NULL AND desired = candidate)),
  CHECK (candidate <> accepted),
  CHECK (applied_gen <= generation)
);

CREATE TABLE activation (
  generation   bigint PRIMARY KEY,
  version      int NOT NULL REFERENCES rule_version,  -- in force after it
  previous     int REFERENCES rule_version,           -- in force before it
  kind         text NOT NULL CHECK (kind IN ('seed', 'trial', 'swap', 'accept', 'rollback', 'manual', 'crash_rollback')),
  cycle_id     bigint REFERENCES cycle,
  actor        text NOT NULL,
  reason       text NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_at   timestamptz                            -- when the target confirmed it
);
CREATE INDEX activation_version ON activation (version);
