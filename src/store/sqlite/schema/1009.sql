-- That a job had no success for too long is said once.
ALTER TABLE job ADD COLUMN stale TEXT;
