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

-- name: runs_active
SELECT no, id FROM run WHERE session = $1 AND status IN ('queued', 'running') ORDER BY no

-- name: runs_active_first
SELECT no, id FROM run WHERE session = $1 AND status IN ('queued', 'running') ORDER BY no LIMIT 1

-- What the running run has moved is older than this.
-- name: session_entered
UPDATE run SET moved_at = NULL WHERE session = $1 AND status = 'running'

-- name: run_add
INSERT INTO run (owner, id, session, status, holder, beat, epoch, cancel_requested, base, head, commits, events, started_at, finished_at,
                 stop_reason, answer, error, usage, pending, parent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT (owner, id) DO NOTHING
RETURNING no

-- name: run_body_add
INSERT INTO run_body (run, body) VALUES ($1, $2)

-- name: interrupt_answer
UPDATE interrupt SET state = 'answered', decision = $3, answered_by = $4 WHERE session = $1 AND id = $2 AND state = 'open' RETURNING no

-- name: interrupt_state
SELECT state FROM interrupt WHERE session = $1 AND id = $2

-- name: interrupts_supersede
UPDATE interrupt SET state = 'superseded' WHERE session = $1 AND checkpoint = $2 AND state = 'open' RETURNING id

-- The same question as the sessions of runs below hold it.
-- name: interrupt_supersede_below
UPDATE interrupt SET state = 'superseded'
WHERE id = $1 AND state = 'open' AND session IN (SELECT no FROM session WHERE owner = $2)

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

-- A run as of its last commit, and its session.
-- name: tip
SELECT r.no, r.session, r.status, r.epoch, r.commits, r.events, r.head, r.tail, s.head, s.tail, s.forked,
       (SELECT MAX(p.step) FROM progress p WHERE p.run = r.no)
FROM run r JOIN session s ON s.no = r.session
WHERE r.owner = $1 AND r.id = $2 AND s.id = $3

-- name: log_add
INSERT INTO log (run, first, told, calls, parent, keys, body) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING no

-- name: log_drop
DELETE FROM log WHERE no = $1

-- name: run_note
UPDATE run SET commits = commits + 1, events = events + $4
WHERE no = $1 AND epoch = $2 AND commits = $3 AND status = 'running'
RETURNING no

-- name: run_move
UPDATE run SET commits = commits + 1, events = events + $4, head = $5, tail = $6, moved_at = $7
WHERE no = $1 AND epoch = $2 AND commits = $3 AND status = 'running'
RETURNING no

-- name: session_fork
UPDATE session SET forked = 1 WHERE no = $1 AND forked = 0

-- While a run runs its head is that of its session, and is not written there.
-- name: session_rest
UPDATE session SET head = COALESCE((SELECT r.head FROM run r WHERE r.no = $2), head),
    tail = COALESCE((SELECT r.tail FROM run r WHERE r.no = $2), tail),
    updated_at = COALESCE((SELECT r.moved_at FROM run r WHERE r.no = $2), updated_at)
WHERE no = $1

-- name: log_keys_in_session
SELECT l.keys FROM log l JOIN run r ON r.no = l.run WHERE l.no = $1 AND r.session = $2

-- name: session_keys
SELECT l.no, l.keys FROM run r JOIN log l ON l.run = r.no WHERE r.session = $1 AND l.keys IS NOT NULL ORDER BY l.no

-- name: calls_of_run
SELECT l.run, l.body FROM log l WHERE l.run = $1 AND l.calls > 0 ORDER BY l.first, l.no

-- name: progress_fold
DELETE FROM progress WHERE run = $1 AND step <= $2

-- name: interrupt_put
INSERT INTO interrupt (session, id, run, checkpoint, state, answered_by, decision, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (session, id) DO UPDATE SET run = excluded.run, checkpoint = excluded.checkpoint, body = excluded.body,
    answered_by = CASE interrupt.state WHEN 'open' THEN excluded.answered_by ELSE interrupt.answered_by END,
    decision = CASE interrupt.state WHEN 'open' THEN excluded.decision ELSE interrupt.decision END,
    state = CASE interrupt.state WHEN 'open' THEN excluded.state ELSE interrupt.state END

-- name: progress_put
INSERT INTO progress (run, step, place, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (run, step, place) DO UPDATE SET body = excluded.body

-- name: run_patch
UPDATE run SET status = COALESCE($2, status), holder = CASE WHEN $2 IS NULL THEN holder END,
    moved_at = CASE WHEN $2 IS NULL THEN moved_at END, stop_reason = COALESCE($3, stop_reason),
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
RETURNING no

-- name: run_tail
UPDATE run SET tail = $2 WHERE no = $1 AND head = $3

-- name: session_tail
UPDATE session SET tail = $2, forked = $3 WHERE no = $1

-- name: session_lock
UPDATE session SET updated_at = updated_at WHERE owner = $1 AND id = $2 RETURNING no

-- name: delete_progress
DELETE FROM progress WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_run_bodies
DELETE FROM run_body WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_interrupts
DELETE FROM interrupt WHERE session = $1

-- name: delete_log
DELETE FROM log WHERE run IN (SELECT no FROM run WHERE session = $1)

-- name: delete_runs
DELETE FROM run WHERE session = $1

-- name: delete_session
DELETE FROM session WHERE no = $1

-- Reading.

-- name: log_at
SELECT l.no, l.run, r.id, l.parent, l.keys, l.body, s.no, s.id, l.first FROM log l JOIN run r ON r.no = l.run JOIN session s ON s.no = r.session
WHERE l.no = $1 AND s.owner = $2

-- name: log_body
SELECT l.keys, l.body FROM log l WHERE l.no = $1 AND l.keys IS NOT NULL

-- The checkpoints of a run up to one of them.
-- name: log_of_run
SELECT l.no, l.parent, l.keys, l.body FROM log l WHERE l.run = $1 AND l.first <= $2 AND l.no <= $3 AND l.keys IS NOT NULL
ORDER BY l.first, l.no

-- name: run_no
SELECT no FROM run WHERE owner = $1 AND id = $2

-- name: events_after
SELECT l.first, l.told, l.body FROM log l
WHERE l.run = $1 AND l.told > 0 AND l.first <= $3
  AND l.first >= COALESCE((SELECT MAX(o.first) FROM log o WHERE o.run = $1 AND o.first <= $2 AND o.told > 0), 0)
ORDER BY l.first

-- name: rows_session
SELECT s.id, s.owner, COALESCE(x.head, s.head), s.created_at, COALESCE(x.moved_at, s.updated_at), s.metadata, s.next_context
FROM session s LEFT JOIN run x ON x.session = s.no AND x.status = 'running' WHERE 1 = 1

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
SELECT s.id, r.id, p.keys, l.keys, l.body
FROM session s JOIN run r ON r.session = s.no JOIN log l ON l.run = r.no LEFT JOIN log p ON p.no = l.parent WHERE l.keys IS NOT NULL

-- Rows that tell of calls; what became of each call is folded from them.
-- name: rows_call
SELECT r.id, r.no, l.body FROM session s JOIN run r ON r.session = s.no JOIN log l ON l.run = r.no WHERE l.calls > 0

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
SELECT s.no, r.no, l.first, l.no FROM session s JOIN run r ON r.session = s.no JOIN log l ON l.run = r.no WHERE 1 = 1

-- name: place_interrupt
SELECT i.session, i.no FROM interrupt i JOIN session s ON s.no = i.session WHERE 1 = 1
