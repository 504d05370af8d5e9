-- What PostgreSQL does in its own way.

-- name: write
SELECT write_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
               $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44)

-- name: write_group
SELECT write_group_1($1::writing_1[])

-- Heartbeats lock runs in the order in which groups of commits do.
-- name: runs_renew
UPDATE run SET beat = beat + 1
FROM (
    SELECT r.no FROM run r JOIN session s ON s.no = r.session WHERE r.status = 'running' AND r.holder = $1
    ORDER BY s.owner COLLATE "C", s.id COLLATE "C" FOR UPDATE OF r
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
