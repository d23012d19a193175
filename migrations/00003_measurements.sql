-- What was measured, what the proxies recorded, and what was said to a model.
-- +goose Up

-- Latencies are milliseconds.
CREATE TABLE run (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cycle_id       bigint NOT NULL REFERENCES cycle ON DELETE CASCADE,
  machine        text NOT NULL,                     -- that made the load: noise is a machine's own
  scenario       text NOT NULL,
  arm            text NOT NULL CHECK (arm IN ('baseline', 'champion', 'candidate', 'settle', 'screen')),
  pair           int NOT NULL CHECK (pair >= 0),    -- 1-based; 0: not part of a pair
  version        int REFERENCES rule_version,
  algorithm      text NOT NULL DEFAULT '',          -- fixed; empty: by the version's rules
  seed           bigint NOT NULL,                   -- an unsigned number, bit for bit
  driver         text NOT NULL CHECK (driver IN ('k6', 'builtin')),
  driver_version text NOT NULL,
  started_at     timestamptz NOT NULL,              -- of the measured phase
  duration_ns    bigint NOT NULL CHECK (duration_ns >= 0),
  planned        bigint NOT NULL,
  requests       bigint NOT NULL,
  failed         bigint NOT NULL,
  dropped        bigint NOT NULL,
  rps            double precision NOT NULL,
  error_rate     double precision NOT NULL,
  avg_ms         double precision NOT NULL,
  p50_ms         double precision NOT NULL,
  p90_ms         double precision NOT NULL,
  p95_ms         double precision NOT NULL,
  p99_ms         double precision NOT NULL,
  max_ms         double precision NOT NULL,
  marks          jsonb NOT NULL,
  status_counts  jsonb NOT NULL,
  histogram      bytea,                             -- HdrHistogram of microseconds, V2 compressed
  exit_code      int NOT NULL,
  driver_cpu     double precision NOT NULL,         -- share of one core
  log            text[] NOT NULL DEFAULT '{}',
  invalid        text[] NOT NULL DEFAULT '{}',      -- why it is no evidence; empty: it is
  created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX run_cycle ON run (cycle_id, id);
CREATE INDEX run_noise ON run (machine, id) WHERE pair > 0 AND cardinality(invalid) = 0;

-- One row per metric, one point per second from the run's start: 3 bytes a point, where rows would take 84.
CREATE TABLE run_series (
  run_id bigint NOT NULL REFERENCES run ON DELETE CASCADE,
  metric text NOT NULL CHECK (metric IN ('requests', 'failed', 'dropped', 'avg_ms', 'p50_ms', 'p95_ms', 'p99_ms')),
  points real[] NOT NULL,
  PRIMARY KEY (run_id, metric)
);

-- The proxy's boot id and counter name a decision for good: reading the same ones again stores nothing twice.
CREATE TABLE decision (
  boot_id            text NOT NULL,
  seq                bigint NOT NULL,
  at                 timestamptz NOT NULL,
  cycle_id           bigint REFERENCES cycle ON DELETE CASCADE,
  run_id             bigint REFERENCES run ON DELETE CASCADE,
  state              text NOT NULL,
  previous_state     text NOT NULL,
  algorithm          text NOT NULL,
  previous_algorithm text NOT NULL,
  switched           boolean NOT NULL,
  confidence         double precision NOT NULL,
  reason             text NOT NULL,
  gates              jsonb NOT NULL,
  rules_version      int NOT NULL,                  -- as the proxy says; a proxy may run rules that are no version of ours
  cause              text NOT NULL,
  snapshot           jsonb NOT NULL,
  PRIMARY KEY (boot_id, seq)
);
CREATE INDEX decision_cycle ON decision (cycle_id, at) WHERE cycle_id IS NOT NULL;

-- A snapshot carries no boot id: its instant and the proxy's counter name it.
CREATE TABLE snapshot (
  at       timestamptz NOT NULL,
  seq      bigint NOT NULL,
  cycle_id bigint REFERENCES cycle ON DELETE CASCADE,
  run_id   bigint REFERENCES run ON DELETE CASCADE,
  snapshot jsonb NOT NULL,
  PRIMARY KEY (at, seq)
);
CREATE INDEX snapshot_cycle ON snapshot (cycle_id, at) WHERE cycle_id IS NOT NULL;

-- Every exchange with a model, the failed ones too. It never holds the key.
CREATE TABLE llm_call (
  id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cycle_id          bigint NOT NULL REFERENCES cycle ON DELETE CASCADE,
  version           int REFERENCES rule_version,    -- what it became, if anything
  provider          text NOT NULL,
  model             text NOT NULL,
  temperature       double precision NOT NULL,
  prompt_sha256     text NOT NULL,
  request           text NOT NULL,
  response          text NOT NULL,
  outcome           text NOT NULL CHECK (outcome IN (
                      'ok', 'invalid_json', 'invalid_rules', 'timeout', 'http_error', 'refused', 'truncated', 'empty')),
  error             text NOT NULL,
  prompt_tokens     int NOT NULL,
  completion_tokens int NOT NULL,
  cost_usd          double precision,               -- unknown: null
  latency_ns        bigint NOT NULL,
  at                timestamptz NOT NULL
);
CREATE INDEX llm_call_cycle ON llm_call (cycle_id, id);
