-- Ticks that are settled together, after a long outage.
ALTER TABLE job ADD COLUMN "range" TEXT;
ALTER TABLE run ADD COLUMN range_first TEXT;
ALTER TABLE run ADD COLUMN range_count INTEGER;
ALTER TABLE history ADD COLUMN range_first TEXT;
ALTER TABLE history ADD COLUMN range_count INTEGER;
