-- Schedules that a job had before: their ticks up to the change are owed a record, too.
ALTER TABLE job ADD COLUMN former TEXT;
