-- Ticks that nobody ran since the last success, and that a job had none for too long.
ALTER TABLE job ADD COLUMN missed INTEGER;
ALTER TABLE job ADD COLUMN stale TEXT;
