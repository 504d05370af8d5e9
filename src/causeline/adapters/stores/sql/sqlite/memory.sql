-- Memories, as FTS5 finds them.

-- What is found by words is a table of its own here: the second column says whether `$9` is in it already.
-- name: memory_add
INSERT INTO memory (collection, namespace, key, created_at, expires_at, length, words, body)
SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE $9 IS NOT NULL RETURNING no, 0

-- name: memory_words_add
INSERT INTO memory_words (rowid, words) VALUES ($1, $2)

-- name: memory_words_remove
INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', $1, $2)

-- name: memory_word_count
SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH '"' || $1 || '"' LIMIT $2) held

-- name: memory_lexical
SELECT m.namespace, m.key, m.created_at, m.expires_at, m.body, m.words, m.no, NULL
FROM memory_words f CROSS JOIN memory m ON m.no = f.rowid
WHERE f.memory_words MATCH '"' || replace($1, ' ', '" OR "') || '"' AND m.namespace >= $2 AND m.namespace < $3
    AND (m.expires_at IS NULL OR m.expires_at > $4) AND f.rowid < $5
ORDER BY f.rowid DESC LIMIT $6
