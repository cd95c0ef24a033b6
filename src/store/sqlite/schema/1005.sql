-- What tells whether the store may have forgotten something. The one row of `file` tells this file from every other, also
-- from one that is put in its place.
CREATE TABLE file (
    id TEXT NOT NULL
);
INSERT INTO file (id) VALUES (lower(hex(randomblob(8))));
ALTER TABLE job ADD COLUMN identity TEXT;
ALTER TABLE job ADD COLUMN evicted INTEGER;
ALTER TABLE job ADD COLUMN forgot_at INTEGER;
ALTER TABLE job ADD COLUMN quiet_ms INTEGER;
ALTER TABLE run ADD COLUMN asserted INTEGER;
