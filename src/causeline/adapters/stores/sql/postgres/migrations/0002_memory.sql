-- The tables of sql/sqlite/migrations/0002_memory.sql, with the types of PostgreSQL. See there what columns mean.

CREATE TABLE memory_set (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    items BIGINT NOT NULL,
    words BIGINT NOT NULL,
    UNIQUE (owner, name)
);

CREATE TABLE memory (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection BIGINT NOT NULL,
    namespace BYTEA NOT NULL,
    key BYTEA NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    length BIGINT NOT NULL,
    words BYTEA NOT NULL,
    body BYTEA NOT NULL,
    found_by TSVECTOR NOT NULL,
    UNIQUE (collection, namespace, key)
);

CREATE INDEX memory_order ON memory (collection, no);

CREATE INDEX memory_expiry ON memory (collection, expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX memory_words ON memory USING gin (found_by);

CREATE TABLE memory_vector (
    no BIGINT PRIMARY KEY,
    collection BIGINT NOT NULL,
    signature BYTEA NOT NULL,
    vector BYTEA NOT NULL
);

CREATE INDEX memory_vectors ON memory_vector (collection);
