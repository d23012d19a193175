-- Cycles are the queue as well: a queued row is claimed, worked on by its owner, and ended.
-- +goose Up

-- Instance numbers. An instance holds the advisory lock (21076, number) on its session for as long as it lives:
-- a cycle whose owner's lock is free has been orphaned.
CREATE SEQUENCE instance_seq AS int;

CREATE TABLE schedule (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name          text NOT NULL UNIQUE CHECK (name <> ''),
  cron          text NOT NULL,
  time_zone     text NOT NULL,
  profile       text NOT NULL CHECK (profile IN ('quick', 'standard', 'nightly')),
  generator     text NOT NULL CHECK (generator IN ('openai', 'local')),
  driver        text NOT NULL CHECK (driver IN ('auto', 'k6', 'builtin')),
  missed        text NOT NULL CHECK (missed IN ('run_once', 'skip')),
  enabled       boolean NOT NULL,
  next_run_at   timestamptz,                        -- of an enabled one
  last_run_at   timestamptz,
  last_cycle_id bigint,
  last_note     text NOT NULL DEFAULT '',           -- why a run was skipped; empty after one that was not
  created_at    timestamptz NOT NULL DEFAULT now(),
  CHECK (enabled = (next_run_at IS NOT NULL))
);
CREATE INDEX schedule_due ON schedule (next_run_at) WHERE enabled;

CREATE TABLE cycle (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- as asked for
  kind             text NOT NULL CHECK (kind IN ('tune', 'calibrate')),
  trigger          text NOT NULL CHECK (trigger IN ('web', 'cli', 'api', 'schedule', 'system')),
  actor            text NOT NULL DEFAULT '',
  schedule_id      bigint REFERENCES schedule ON DELETE SET NULL,
  target           text NOT NULL CHECK (target <> ''),
  profile          text NOT NULL CHECK (profile IN ('quick', 'standard', 'nightly')),
  generator        text NOT NULL,
  driver           text NOT NULL CHECK (driver IN ('auto', 'k6', 'builtin')),
  scenarios        text[] NOT NULL DEFAULT '{}',
  limits           jsonb NOT NULL,
  proposal         text NOT NULL DEFAULT '',
  force            boolean NOT NULL DEFAULT false,
  -- as it stands
  status           text NOT NULL DEFAULT 'queued' CHECK (status IN (
                     'queued', 'baseline', 'generating', 'applying', 'settling', 'verifying',
                     'kept', 'rolled_back', 'inconclusive', 'no_change', 'finished', 'failed', 'cancelled', 'interrupted')),
  champion         int,
  candidate        int,
  evidence         jsonb,
  verdict          jsonb,
  why              text NOT NULL DEFAULT '',
  owner            int,                             -- the instance that runs or ran it
  cancel_requested boolean NOT NULL DEFAULT false,
  created_at       timestamptz NOT NULL DEFAULT now(),
  started_at       timestamptz,
  finished_at      timestamptz,
  CONSTRAINT ended_is_finished CHECK (
    (status IN ('queued', 'baseline', 'generating', 'applying', 'settling', 'verifying')) = (finished_at IS NULL)),
  CONSTRAINT queued_has_no_owner CHECK (status <> 'queued' OR (owner IS NULL AND started_at IS NULL)),
  CONSTRAINT running_has_an_owner CHECK (
    status = 'queued' OR finished_at IS NOT NULL OR (owner IS NOT NULL AND started_at IS NOT NULL))
);
-- Whatever else goes wrong: two cycles never load one target at once.
CREATE UNIQUE INDEX cycle_one_running ON cycle (target)
  WHERE status IN ('baseline', 'generating', 'applying', 'settling', 'verifying');
CREATE INDEX cycle_open ON cycle (id) WHERE finished_at IS NULL;
CREATE INDEX cycle_schedule ON cycle (schedule_id) WHERE schedule_id IS NOT NULL;

CREATE TABLE cycle_step (
  cycle_id    bigint NOT NULL REFERENCES cycle ON DELETE CASCADE,
  seq         int NOT NULL CHECK (seq >= 1),
  name        text NOT NULL,
  started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz,
  detail      text NOT NULL DEFAULT '',
  PRIMARY KEY (cycle_id, seq)
);
CREATE UNIQUE INDEX cycle_step_open ON cycle_step (cycle_id) WHERE finished_at IS NULL;

-- The latest progress, written every second of a run: unlogged, so that it never waits for the disk during a
-- measurement. A crash of the server empties it, and the cycle that it told of is interrupted anyway.
CREATE UNLOGGED TABLE cycle_live (
  cycle_id bigint PRIMARY KEY REFERENCES cycle ON DELETE CASCADE,
  live     jsonb NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('retune', TG_TABLE_NAME);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER wake AFTER INSERT OR UPDATE OF status, cancel_requested ON cycle
  FOR EACH STATEMENT EXECUTE FUNCTION wake();
CREATE TRIGGER wake AFTER INSERT OR UPDATE OF next_run_at ON schedule
  FOR EACH STATEMENT EXECUTE FUNCTION wake();
