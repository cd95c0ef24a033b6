-- Who is there: one row per member of the fleet, its presence as JSON.
CREATE TABLE IF NOT EXISTS replica (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    presence TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
