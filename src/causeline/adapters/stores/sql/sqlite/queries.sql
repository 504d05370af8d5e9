-- What SQLite needs said in its own way.

-- Workers ask this all the time. Without statistics SQLite would rather read the whole table in order.
-- name: rows_run_active
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r INDEXED BY run_active JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no WHERE r.status IN ('queued', 'running')

-- Ids of the log are indexed in bulk (log_writes.fill). Rows after the last one that is indexed are looked through.
-- name: places
SELECT p.no FROM place p WHERE p.id = $1
UNION
SELECT l.no FROM log l WHERE l.no > (SELECT w.no FROM placed w WHERE w.one = 1) AND l.keys IS NOT NULL AND INSTR(l.keys, $2) > 0
ORDER BY 1

-- name: placed
SELECT no FROM placed WHERE one = 1

-- name: log_keys_after
SELECT l.no, l.keys FROM log l WHERE l.no > $1 AND l.keys IS NOT NULL ORDER BY l.no

-- name: place_add
INSERT OR IGNORE INTO place (id, no) VALUES ($1, $2)

-- name: placed_set
UPDATE placed SET no = $1 WHERE one = 1

-- name: place_drop
DELETE FROM place WHERE id = $1 AND no = $2

-- The numbers of deleted rows are given again.
-- name: placed_back
UPDATE placed SET no = MIN(no, (SELECT COALESCE(MAX(l.no), 0) FROM log l)) WHERE one = 1

-- One writer at a time, so there is nothing to hold.
-- name: session_hold
SELECT $1
