-- Runs of jobs with a jitter are due later than at their tick.
ALTER TABLE run ADD COLUMN delay_ms INTEGER;
