-- That a job had no success for too long is said once.
ALTER TABLE onecron_job ADD COLUMN "stale" MEDIUMTEXT;
