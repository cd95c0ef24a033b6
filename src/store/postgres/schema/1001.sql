-- Ticks that nobody ran since the last success, and that a job had none for too long.
ALTER TABLE onecron_job ADD COLUMN IF NOT EXISTS "missed" BIGINT;
ALTER TABLE onecron_job ADD COLUMN IF NOT EXISTS "stale" TEXT;
