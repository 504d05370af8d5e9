-- Memories, as full text search finds them. A word is letters, digits and one underscore, so it can stand between quotes.

-- name: memory_add
INSERT INTO memory (collection, namespace, key, created_at, expires_at, length, words, body, found_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, array_to_tsvector(array_remove(string_to_array($9, ' '), ''))) RETURNING no, 1

-- name: memory_words_remove
SELECT $1::BIGINT, $2::TEXT

-- name: memory_word_count
SELECT count(*) FROM (SELECT 1 FROM memory WHERE found_by @@ ('''' || $1::TEXT || '''')::TSQUERY LIMIT $2) held

-- name: memory_lexical
SELECT namespace, key, created_at, expires_at, body, words, no, NULL FROM memory
WHERE found_by @@ ('''' || replace($1::TEXT, ' ', ''' | ''') || '''')::TSQUERY AND namespace >= $2 AND namespace < $3
    AND (expires_at IS NULL OR expires_at > $4) AND no < $5
ORDER BY no DESC LIMIT $6

-- Vectors by the extension pgvector, where it is; what follows a name here says in which schema it is.

-- name: vector_make
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public

-- name: vector_schema
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'

-- name: vector_table
CREATE TABLE IF NOT EXISTS memory_embedding
(no BIGINT PRIMARY KEY REFERENCES memory_vector (no) ON DELETE CASCADE, collection BIGINT NOT NULL, embedding

-- name: vector_missing
SELECT v.no, v.collection, v.vector FROM memory_vector v WHERE NOT EXISTS (SELECT 1 FROM memory_embedding e WHERE e.no = v.no) LIMIT $1

-- name: vector_add
INSERT INTO memory_embedding (no, collection, embedding) VALUES ($1, $2,

-- name: vector_near
SELECT v.no FROM memory_embedding v JOIN memory m ON m.no = v.no
WHERE v.collection = $1 AND m.namespace >= $2 AND m.namespace < $3 AND (m.expires_at IS NULL OR m.expires_at > $4)
