-- Runs that are HTTP requests.
ALTER TABLE run ADD COLUMN http_status INTEGER;
ALTER TABLE history ADD COLUMN http_status INTEGER;
