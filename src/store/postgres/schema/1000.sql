-- One row per job, per run and per decided tick; columns have the names that docs and logs use.
-- Empty texts are NULL. Instants are milliseconds since the epoch, ticks RFC 3339 or (floor, decided_through,
-- last_begun) seconds since the epoch.

CREATE TABLE IF NOT EXISTS onecron_job (
    "namespace" TEXT COLLATE "C" NOT NULL,
    "job" TEXT COLLATE "C" NOT NULL,
    "format" BIGINT NOT NULL,
    "revision" BIGINT NOT NULL,
    "schedule" TEXT,
    "zone" TEXT,
    "former" TEXT,
    "spec_hash" TEXT,
    "registered_at" BIGINT,
    "since" BIGINT,
    "floor" BIGINT,
    "decided_through" BIGINT,
    "last_begun" BIGINT,
    "manual_token" BIGINT,
    "range" TEXT,
    "slot" TEXT,
    "open" TEXT,
    "paused" TEXT,
    "all_paused" TEXT,
    "last_success" TEXT,
    "failures" BIGINT,
    "keep_ms" BIGINT,
    "history_ticks" BIGINT,
    "history_successful" BIGINT,
    "history_failed" BIGINT,
    "identity" TEXT,
    "evicted" BIGINT,
    "forgot_at" BIGINT,
    "quiet_ms" BIGINT,
    PRIMARY KEY (namespace, job)
) WITH (fillfactor = 70);

-- Open runs, and the oldest final ones, are found by their state.
CREATE TABLE IF NOT EXISTS onecron_run (
    "namespace" TEXT COLLATE "C" NOT NULL,
    "job" TEXT COLLATE "C" NOT NULL,
    "scheduled_for" TEXT COLLATE "C" NOT NULL,
    "format" BIGINT NOT NULL,
    "state" TEXT COLLATE "C" NOT NULL,
    "owner" TEXT,
    "start" BIGINT,
    "number" BIGINT,
    "request" TEXT,
    "lease_ms" BIGINT,
    "grace_ms" BIGINT,
    "stop_grace_ms" BIGINT,
    "takeover_ms" BIGINT,
    "delay_ms" BIGINT,
    "exclusive" BIGINT,
    "when_busy" TEXT,
    "waiting_since" BIGINT,
    "stop_asked" TEXT,
    "stop_asked_by" TEXT,
    "rerun" BIGINT,
    "trigger" TEXT,
    "spec_hash" TEXT,
    "claimed_at" BIGINT,
    "begun_at" BIGINT,
    "renewed_at" BIGINT,
    "ended_at" BIGINT,
    "outcome" TEXT,
    "reason" TEXT,
    "range_first" TEXT,
    "range_count" BIGINT,
    "exit_code" BIGINT,
    "signal" BIGINT,
    "http_status" BIGINT,
    "duration_ms" BIGINT,
    "error" TEXT,
    "late_outcome" TEXT,
    "lost_by" TEXT,
    "asserted" BIGINT,
    "ordered_by" TEXT,
    "order_key" TEXT COLLATE "C",
    "runs_for" TEXT,
    "despite_pause" BIGINT,
    "token" BIGINT,
    PRIMARY KEY (namespace, job, scheduled_for)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS onecron_run_state ON onecron_run (namespace, job, state, scheduled_for);
CREATE INDEX IF NOT EXISTS onecron_run_order ON onecron_run (namespace, job) WHERE order_key IS NOT NULL;

CREATE TABLE IF NOT EXISTS onecron_history (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "job" TEXT COLLATE "C" NOT NULL,
    "scheduled_for" TEXT COLLATE "C" NOT NULL,
    "outcome" TEXT NOT NULL,
    "reason" TEXT,
    "range_first" TEXT,
    "range_count" BIGINT,
    "late_outcome" TEXT,
    "owner" TEXT,
    "start" BIGINT,
    "ended_at" BIGINT,
    "duration_ms" BIGINT,
    "exit_code" BIGINT,
    "signal" BIGINT,
    "http_status" BIGINT,
    "error" TEXT,
    "output_tail" TEXT
);
CREATE INDEX IF NOT EXISTS onecron_history_of_job ON onecron_history (namespace, job, id);

-- Who is there: one row per member of the fleet, its presence as JSON.
CREATE TABLE IF NOT EXISTS onecron_replica (
    "namespace" TEXT COLLATE "C" NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "number" BIGINT NOT NULL,
    "written_at" BIGINT NOT NULL,
    "presence" TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- The audit trail: rows are added and, when they are old, removed; none is ever changed.
CREATE TABLE IF NOT EXISTS onecron_run_event (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "namespace" TEXT COLLATE "C" NOT NULL,
    "happened_at" BIGINT NOT NULL,
    "job" TEXT COLLATE "C" NOT NULL,
    "scheduled_for" TEXT COLLATE "C" NOT NULL,
    "event" TEXT NOT NULL,
    "actor" TEXT,
    "owner" TEXT,
    "start" BIGINT,
    "token" BIGINT,
    "trigger" TEXT,
    "state" TEXT COLLATE "C",
    "outcome" TEXT,
    "reason" TEXT,
    "exit_code" BIGINT,
    "signal" BIGINT,
    "http_status" BIGINT,
    "duration_ms" BIGINT,
    "error" TEXT
);
CREATE INDEX IF NOT EXISTS onecron_run_event_time ON onecron_run_event (namespace, happened_at);
CREATE INDEX IF NOT EXISTS onecron_run_event_run ON onecron_run_event (namespace, job, scheduled_for);
