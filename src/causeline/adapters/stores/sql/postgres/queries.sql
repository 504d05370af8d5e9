-- What PostgreSQL does in its own way.

-- Commits of several runs, one of each run at most: the run's row is the fence, and only a run that is found gets its row in the log.
-- Runs are locked in one order, so that two groups do not wait for each other.
-- name: append
WITH given AS MATERIALIZED (
    SELECT nextval('log_no_seq') AS no, g.*
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::BIGINT[], $6::INTEGER[], $7::INTEGER[], $8::BIGINT[], $9::BYTEA[],
                $10::BYTEA[]) AS g (run, epoch, commits, at, first, told, calls, parent, keys, body)
), held AS MATERIALIZED (
    SELECT r.no FROM run r WHERE r.no = ANY($1::BIGINT[]) ORDER BY r.no FOR NO KEY UPDATE
), fenced AS (
    UPDATE run r SET commits = r.commits + 1, events = r.events + g.told,
        head = CASE WHEN g.keys IS NULL THEN r.head ELSE substring(g.keys FROM 1 FOR 12) END,
        tail = CASE WHEN g.keys IS NULL THEN r.tail ELSE g.no END,
        moved_at = CASE WHEN g.keys IS NULL THEN r.moved_at ELSE g.at END
    FROM given g JOIN held h ON h.no = g.run
    WHERE r.no = g.run AND r.epoch = g.epoch AND r.commits = g.commits AND r.status = 'running'
    RETURNING g.no, g.run, g.first, g.told, g.calls, g.parent, g.keys, g.body
)
INSERT INTO log (no, run, first, told, calls, parent, keys, body)
SELECT f.no, f.run, f.first, f.told, f.calls, f.parent, f.keys, f.body FROM fenced f
RETURNING run, no

-- Rows that list an id. The first parameter is for databases whose index holds a part of the id only.
-- name: places
SELECT l.no FROM log l WHERE log_keys(l.keys) @> ARRAY[$2::BYTEA] AND $1::BIGINT >= 0 ORDER BY l.no

-- Whoever changes a session holds it before its run, as starts do.
-- name: session_hold
SELECT no FROM session WHERE no = $1 FOR NO KEY UPDATE

-- Heartbeats lock runs in the order in which groups of commits do.
-- name: runs_renew
UPDATE run SET beat = beat + 1
FROM (
    SELECT r.no FROM run r WHERE r.status = 'running' AND r.holder = $1 ORDER BY r.no FOR NO KEY UPDATE
) held
WHERE run.no = held.no

-- Steps of the schema are applied by one process at a time. The number is "csln" in ASCII.
-- name: migration_lock
SELECT pg_advisory_xact_lock(1668508782)

-- name: format_table
CREATE TABLE IF NOT EXISTS format (version INTEGER PRIMARY KEY, name TEXT NOT NULL)

-- name: format_version
SELECT COALESCE(MAX(version), 0) FROM format

-- name: format_add
INSERT INTO format (version, name) VALUES ($1, $2)
