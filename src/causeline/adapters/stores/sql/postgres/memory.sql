-- Memories, as full text search finds them. A word is letters, digits and one underscore, so it can stand between quotes.

-- name: memory_add
INSERT INTO memory (collection, namespace, key, created_at, expires_at, length, words, body, found_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '') RETURNING no

-- name: memory_words_add
UPDATE memory SET found_by = array_to_tsvector(array_remove(string_to_array($2, ' '), '')) WHERE no = $1

-- name: memory_words_remove
SELECT $1::BIGINT, $2::TEXT

-- name: memory_word_count
SELECT count(*) FROM (SELECT 1 FROM memory WHERE found_by @@ ('''' || $1::TEXT || '''')::TSQUERY LIMIT $2) held

-- name: memory_lexical
SELECT namespace, key, created_at, expires_at, body, words, no, NULL FROM memory
WHERE found_by @@ ('''' || replace($1::TEXT, ' ', ''' | ''') || '''')::TSQUERY AND namespace >= $2 AND namespace < $3
    AND (expires_at IS NULL OR expires_at > $4) AND no < $5
ORDER BY no DESC LIMIT $6
