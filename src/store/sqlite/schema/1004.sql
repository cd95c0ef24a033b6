-- A run may wait for another one to end, and may be asked to end itself.
ALTER TABLE run ADD COLUMN stop_grace_ms INTEGER;
ALTER TABLE run ADD COLUMN when_busy TEXT;
ALTER TABLE run ADD COLUMN waiting_since INTEGER;
ALTER TABLE run ADD COLUMN stop_asked TEXT;
ALTER TABLE run ADD COLUMN stop_asked_by TEXT;
