-- One row per job, per run and per decided tick; columns have the names that docs and logs use.
-- Empty texts are NULL. Instants are milliseconds since the epoch, ticks RFC 3339 or (floor, decided_through,
-- last_begun) seconds since the epoch.

CREATE TABLE IF NOT EXISTS job (
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    format INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    schedule TEXT,
    zone TEXT,
    spec_hash TEXT,
    registered_at INTEGER,
    since INTEGER,
    floor INTEGER,
    decided_through INTEGER,
    last_begun INTEGER,
    slot TEXT,
    open TEXT,
    paused TEXT,
    last_success TEXT,
    failures INTEGER,
    keep_ms INTEGER,
    history_ticks INTEGER,
    history_successful INTEGER,
    history_failed INTEGER,
    PRIMARY KEY (namespace, job)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS run (
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    scheduled_for TEXT NOT NULL,
    format INTEGER NOT NULL,
    state TEXT NOT NULL,
    owner TEXT,
    start INTEGER,
    number INTEGER,
    request TEXT,
    lease_ms INTEGER,
    grace_ms INTEGER,
    takeover_ms INTEGER,
    exclusive INTEGER,
    rerun INTEGER,
    "trigger" TEXT,
    spec_hash TEXT,
    claimed_at INTEGER,
    begun_at INTEGER,
    renewed_at INTEGER,
    ended_at INTEGER,
    outcome TEXT,
    reason TEXT,
    exit_code INTEGER,
    signal INTEGER,
    duration_ms INTEGER,
    error TEXT,
    late_outcome TEXT,
    lost_by TEXT,
    PRIMARY KEY (namespace, job, scheduled_for)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS run_open ON run (namespace, job, scheduled_for) WHERE state <> 'done';

CREATE TABLE IF NOT EXISTS history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    scheduled_for TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    late_outcome TEXT,
    owner TEXT,
    start INTEGER,
    ended_at INTEGER,
    duration_ms INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    error TEXT,
    output_tail TEXT
);

CREATE INDEX IF NOT EXISTS history_of_job ON history (namespace, job, id);
