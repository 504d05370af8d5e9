-- Memories. `words` as a parameter are words as they are found, `<collection>_<word>`, separated by blanks.

-- name: memory_set_lock
INSERT INTO memory_set (owner, name, items, words) VALUES ($1, $2, $3, $4)
ON CONFLICT (owner, name) DO UPDATE SET items = memory_set.items + excluded.items, words = memory_set.words + excluded.words
RETURNING no

-- name: memory_set_count
UPDATE memory_set SET items = items + $2, words = words + $3 WHERE no = $1

-- name: memory_set
SELECT no, items, words FROM memory_set WHERE owner = $1 AND name = $2

-- name: memory_remove
DELETE FROM memory WHERE collection = $1 AND namespace = $2 AND key = $3 RETURNING no, length, words

-- name: memory_remove_expired
DELETE FROM memory WHERE no IN (SELECT m.no FROM memory m WHERE m.collection = $1 AND m.expires_at <= $2 LIMIT 100)
RETURNING no, length, words

-- name: memory_remove_below
DELETE FROM memory WHERE collection = $1 AND namespace >= $2 AND namespace < $3 RETURNING no, length, words

-- name: memory_vector_remove
DELETE FROM memory_vector WHERE no = $1

-- name: memory_vector_add
INSERT INTO memory_vector (no, collection, signature, vector) VALUES ($1, $2, $3, $4)

-- name: memory_get
SELECT namespace, key, created_at, expires_at, body FROM memory
WHERE collection = $1 AND namespace = $2 AND key = $3 AND (expires_at IS NULL OR expires_at > $4)

-- name: memory_page
SELECT namespace, key, created_at, expires_at, body FROM memory
WHERE collection = $1 AND namespace = $2 AND key > $3 AND (expires_at IS NULL OR expires_at > $4)
ORDER BY key LIMIT $5

-- name: memory_newest
SELECT namespace, key, created_at, expires_at, body, words, no, NULL FROM memory
WHERE collection = $1 AND namespace >= $2 AND namespace < $3 AND (expires_at IS NULL OR expires_at > $4) AND no < $5
ORDER BY no DESC LIMIT $6

-- name: memory_signatures
SELECT v.no, v.signature FROM memory_vector v JOIN memory m ON m.no = v.no
WHERE v.collection = $1 AND m.namespace >= $2 AND m.namespace < $3 AND (m.expires_at IS NULL OR m.expires_at > $4)

-- name: memory_embedded
SELECT m.namespace, m.key, m.created_at, m.expires_at, m.body, m.words, m.no, v.vector
FROM memory_vector v JOIN memory m ON m.no = v.no WHERE v.collection = $1
