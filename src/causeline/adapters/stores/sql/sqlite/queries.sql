-- What SQLite needs said in its own way.

-- Workers ask this all the time. Without statistics SQLite would rather read the whole table in order.
-- name: rows_run_active
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r INDEXED BY run_active JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no WHERE r.status IN ('queued', 'running')
