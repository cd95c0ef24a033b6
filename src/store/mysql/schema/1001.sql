-- Ticks that nobody ran since the last success, and that a job had none for too long.
ALTER TABLE onecron_job ADD COLUMN "missed" BIGINT;
ALTER TABLE onecron_job ADD COLUMN "stale" MEDIUMTEXT;
