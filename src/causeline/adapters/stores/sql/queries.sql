-- Queries of every SQL store, in the SQL that SQLite and PostgreSQL share. $1, $2 ... are parameters.

-- name: run_by_id
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no
WHERE r.owner = $1 AND r.id = $2

-- name: runs_held
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no
WHERE r.status = 'running' AND r.holder = $1
ORDER BY r.no

-- Starting. The session's row is written first, so that starts in one session follow each other.

-- name: session_enter
INSERT INTO session (owner, id, created_at, updated_at) VALUES ($1, $2, $3, $3)
ON CONFLICT (owner, id) DO UPDATE SET updated_at = excluded.updated_at
RETURNING no, head

-- name: checkpoint_no
SELECT no FROM checkpoint WHERE session = $1 AND id = $2

-- name: runs_active
SELECT no, id FROM run WHERE session = $1 AND status IN ('queued', 'running') ORDER BY no

-- name: runs_active_first
SELECT no, id FROM run WHERE session = $1 AND status IN ('queued', 'running') ORDER BY no LIMIT 1

-- name: run_add
INSERT INTO run (owner, id, session, status, holder, beat, epoch, cancel_requested, base, head, events, started_at, finished_at, stop_reason,
                 answer, error, usage, pending, parent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT (owner, id) DO NOTHING
RETURNING no

-- name: run_body_add
INSERT INTO run_body (run, body) VALUES ($1, $2)

-- name: interrupt_answer
UPDATE interrupt SET state = 'answered', decision = $3, answered_by = $4 WHERE session = $1 AND id = $2 AND state = 'open' RETURNING no

-- name: interrupt_state
SELECT state FROM interrupt WHERE session = $1 AND id = $2

-- name: interrupts_supersede
UPDATE interrupt SET state = 'superseded' WHERE session = $1 AND checkpoint = $2 AND state = 'open'

-- name: run_cancel
UPDATE run SET
    stop_reason = CASE status WHEN 'queued' THEN 'cancelled' ELSE stop_reason END,
    finished_at = CASE status WHEN 'queued' THEN $3 ELSE finished_at END,
    cancel_requested = CASE status WHEN 'running' THEN 1 ELSE cancel_requested END,
    status = CASE status WHEN 'queued' THEN 'cancelled' ELSE status END
WHERE owner = $1 AND id = $2 AND status IN ('queued', 'running')

-- Leases.

-- name: run_claim
UPDATE run SET status = 'running', holder = $3, epoch = epoch + 1
WHERE owner = $1 AND id = $2 AND epoch = $4 AND beat = $5 AND (status = 'running' OR (
    status = 'queued'
    AND NOT EXISTS (SELECT 1 FROM run o WHERE o.session = run.session AND o.status = 'running')
    AND NOT EXISTS (SELECT 1 FROM run o WHERE o.session = run.session AND o.status IN ('queued', 'running') AND o.no < run.no)))
RETURNING no, session, started_at

-- name: run_begin
UPDATE run SET started_at = $2, base = COALESCE($3, (SELECT head FROM session WHERE session.no = run.session)) WHERE no = $1 RETURNING base

-- name: runs_renew
UPDATE run SET beat = beat + 1 WHERE status = 'running' AND holder = $1

-- Commits.

-- name: session_move
UPDATE session SET head = $3, updated_at = $4
WHERE owner = $1 AND id = $2 AND (head = $5 OR (head IS NULL AND $5 IS NULL))
RETURNING no

-- name: run_move
UPDATE run SET head = $5, events = events + $6
WHERE owner = $1 AND id = $2 AND session = $3 AND epoch = $4 AND status = 'running' AND ($7 = 0 OR events + 1 = $7)
RETURNING no

-- name: run_write
UPDATE run SET events = events + $5
WHERE owner = $1 AND id = $2 AND epoch = $4 AND status = 'running' AND ($6 = 0 OR events + 1 = $6)
  AND session = (SELECT no FROM session WHERE session.owner = $1 AND session.id = $3)
RETURNING no, session

-- name: run_state
SELECT r.status, r.epoch, r.events, s.head FROM run r JOIN session s ON s.no = r.session WHERE r.owner = $1 AND r.id = $2 AND s.id = $3

-- name: checkpoint_add
INSERT INTO checkpoint (session, run, step, parent, id, appended, frontier, created_at, body)
VALUES ($1, $2, $3, (SELECT no FROM checkpoint WHERE session = $1 AND id = $4), $5, $6, $7, $8, $9)
ON CONFLICT (session, id) DO NOTHING
RETURNING no, parent

-- name: node_add
INSERT INTO node (no, session, id, kind, parents, resource_key, created_at, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (session, id) DO NOTHING

-- name: progress_fold
DELETE FROM progress WHERE run = $1 AND step <= $2

-- name: call_put
INSERT INTO call (run, id, state, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (run, id) DO UPDATE SET state = excluded.state, body = excluded.body WHERE ($5 >> call.state) & 1 = 1
RETURNING no

-- name: call_state
SELECT state FROM call WHERE run = $1 AND id = $2

-- name: interrupt_put
INSERT INTO interrupt (session, id, run, checkpoint, state, answered_by, decision, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (session, id) DO UPDATE SET run = excluded.run, checkpoint = excluded.checkpoint, body = excluded.body,
    answered_by = CASE interrupt.state WHEN 'open' THEN excluded.answered_by ELSE interrupt.answered_by END,
    decision = CASE interrupt.state WHEN 'open' THEN excluded.decision ELSE interrupt.decision END,
    state = CASE interrupt.state WHEN 'open' THEN excluded.state ELSE interrupt.state END

-- name: progress_put
INSERT INTO progress (run, step, place, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (run, step, place) DO UPDATE SET body = excluded.body

-- name: events_add
INSERT INTO event (run, first, body) VALUES ($1, $2, $3)

-- name: run_patch
UPDATE run SET status = COALESCE($2, status), holder = CASE WHEN $2 IS NULL THEN holder END, stop_reason = COALESCE($3, stop_reason),
    answer = COALESCE($4, answer), error = COALESCE($5, error), usage = COALESCE($6, usage), pending = COALESCE($7, pending),
    finished_at = COALESCE($8, finished_at)
WHERE no = $1

-- name: context_taken
UPDATE session SET next_context = NULL WHERE no = $1 AND next_context = $2

-- Whole sessions.

-- name: session_add
INSERT INTO session (owner, id, head, created_at, updated_at, metadata, next_context) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (owner, id) DO NOTHING
RETURNING no

-- name: session_put
INSERT INTO session (owner, id, created_at, updated_at, metadata, next_context) VALUES ($1, $2, $3, $3, $4, $5)
ON CONFLICT (owner, id) DO UPDATE SET updated_at = excluded.updated_at, metadata = COALESCE(excluded.metadata, session.metadata),
    next_context = COALESCE(excluded.next_context, session.next_context)
RETURNING id, owner, head, created_at, updated_at, metadata, next_context

-- name: session_lock
UPDATE session SET updated_at = updated_at WHERE owner = $1 AND id = $2 RETURNING no

-- name: delete_events
DELETE FROM event WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_progress
DELETE FROM progress WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_calls
DELETE FROM call WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_run_bodies
DELETE FROM run_body WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_interrupts
DELETE FROM interrupt WHERE session = $1

-- name: delete_nodes
DELETE FROM node WHERE session = $1

-- name: delete_checkpoints
DELETE FROM checkpoint WHERE session = $1

-- name: delete_runs
DELETE FROM run WHERE session = $1

-- name: delete_session
DELETE FROM session WHERE no = $1

-- Reading. A branch is one list of rows: each checkpoint from the root on, followed by the nodes it brought.

-- name: branch
WITH RECURSIVE chain (no, parent) AS (
    SELECT c.no, c.parent FROM checkpoint c JOIN session s ON s.no = c.session WHERE s.owner = $1 AND s.id = $2 AND c.id = $3
    UNION ALL
    SELECT c.no, c.parent FROM chain JOIN checkpoint c ON c.no = chain.parent
)
SELECT c.no, -1 AS place, r.id, c.step, p.id, c.id, c.appended, c.frontier, c.created_at, c.body
FROM chain JOIN checkpoint c ON c.no = chain.no JOIN run r ON r.no = c.run LEFT JOIN checkpoint p ON p.no = c.parent
UNION ALL
SELECT chain.no, n.no & 65535, n.kind, n.session, NULL, n.id, n.parents, n.resource_key, n.created_at, n.payload
FROM chain JOIN node n ON n.no >= chain.no << 16 AND n.no <= (chain.no << 16) + 65535
ORDER BY 1, 2

-- name: node_in_session
SELECT n.id, n.kind, n.parents, n.resource_key, n.created_at, n.payload
FROM node n JOIN session s ON s.no = n.session
WHERE s.owner = $1 AND s.id = $2 AND n.id = $3

-- name: node_by_id
SELECT s.id, n.id, n.kind, n.parents, n.resource_key, n.created_at, n.payload
FROM session s JOIN node n ON n.session = s.no AND n.id = $2
WHERE s.owner = $1
ORDER BY s.no

-- name: run_no
SELECT no FROM run WHERE owner = $1 AND id = $2

-- name: events_after
SELECT first, body FROM event
WHERE run = $1 AND first >= COALESCE((SELECT MAX(e.first) FROM event e WHERE e.run = $1 AND e.first <= $2), 0)
ORDER BY first
LIMIT $3

-- name: rows_session
SELECT s.id, s.owner, s.head, s.created_at, s.updated_at, s.metadata, s.next_context FROM session s WHERE 1 = 1

-- name: rows_run
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no WHERE 1 = 1

-- name: rows_run_active
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM run r JOIN session s ON s.no = r.session JOIN run_body b ON b.run = r.no WHERE r.status IN ('queued', 'running')

-- The run whose turn it is, of each session with active ones: a walk from one such session to the next.
-- name: rows_run_turn
WITH RECURSIVE busy (session) AS (
    SELECT MIN(o.session) FROM run o WHERE o.status IN ('queued', 'running')
    UNION ALL
    SELECT (SELECT MIN(o.session) FROM run o WHERE o.session > busy.session AND o.status IN ('queued', 'running'))
    FROM busy WHERE busy.session IS NOT NULL
)
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM busy JOIN session s ON s.no = busy.session
JOIN run r ON r.no = COALESCE(
    (SELECT o.no FROM run o WHERE o.session = busy.session AND o.status = 'running'),
    (SELECT MIN(o.no) FROM run o WHERE o.session = busy.session AND o.status IN ('queued', 'running')))
JOIN run_body b ON b.run = r.no WHERE 1 = 1

-- name: rows_run_turn_in_session
SELECT r.no, r.owner, r.id, s.id, r.status, r.holder, r.beat, r.epoch, r.cancel_requested, r.base, r.head, r.started_at, r.finished_at,
       r.stop_reason, r.answer, r.error, r.usage, r.pending, b.body, r.events
FROM session s JOIN run r ON r.no = COALESCE(
    (SELECT o.no FROM run o WHERE o.session = s.no AND o.status = 'running'),
    (SELECT MIN(o.no) FROM run o WHERE o.session = s.no AND o.status IN ('queued', 'running')))
JOIN run_body b ON b.run = r.no WHERE 1 = 1

-- name: rows_checkpoint
SELECT s.id, r.id, c.step, p.id, c.id, c.appended, c.frontier, c.created_at, c.body
FROM checkpoint c JOIN session s ON s.no = c.session JOIN run r ON r.no = c.run LEFT JOIN checkpoint p ON p.no = c.parent WHERE 1 = 1

-- name: rows_call
SELECT r.id, c.id, c.state, c.body FROM call c JOIN run r ON r.no = c.run JOIN session s ON s.no = r.session WHERE 1 = 1

-- name: rows_interrupt
SELECT s.id, i.id, i.run, i.checkpoint, i.state, i.answered_by, i.decision, i.body
FROM interrupt i JOIN session s ON s.no = i.session WHERE 1 = 1

-- name: rows_progress
SELECT r.id, p.step, p.place, p.body FROM progress p JOIN run r ON r.no = p.run JOIN session s ON s.no = r.session WHERE 1 = 1

-- Where the row with an id stands in the order of its kind.

-- name: place_session
SELECT s.no FROM session s WHERE 1 = 1

-- name: place_run
SELECT r.no FROM run r JOIN session s ON s.no = r.session WHERE 1 = 1

-- name: place_checkpoint
SELECT c.session, c.no FROM checkpoint c JOIN session s ON s.no = c.session JOIN run r ON r.no = c.run WHERE 1 = 1

-- name: place_call
SELECT c.run, c.no FROM call c JOIN run r ON r.no = c.run JOIN session s ON s.no = r.session WHERE 1 = 1

-- name: place_interrupt
SELECT i.session, i.no FROM interrupt i JOIN session s ON s.no = i.session WHERE 1 = 1
