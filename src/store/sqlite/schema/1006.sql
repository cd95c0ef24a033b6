-- Runs that people order, and pauses.
ALTER TABLE job ADD COLUMN manual_token INTEGER;
ALTER TABLE job ADD COLUMN all_paused TEXT;
ALTER TABLE run ADD COLUMN ordered_by TEXT;
ALTER TABLE run ADD COLUMN order_key TEXT;
ALTER TABLE run ADD COLUMN runs_for TEXT;
ALTER TABLE run ADD COLUMN despite_pause INTEGER;
ALTER TABLE run ADD COLUMN token INTEGER;
CREATE INDEX IF NOT EXISTS run_order ON run (namespace, job, order_key) WHERE order_key IS NOT NULL;
