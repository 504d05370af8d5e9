-- Memories: values that are found by their words and by their vectors.

-- An owner's items of one sort: `memories`, or digests of `runs`. `items` and `words` are how many there are of both.
CREATE TABLE memory_set (
    no INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    items INTEGER NOT NULL,
    words INTEGER NOT NULL,
    UNIQUE (owner, name)
);

-- `namespace` is its parts, each ended by a zero byte; `words` are separated by blanks, `length` is their number.
CREATE TABLE memory (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL,
    namespace BLOB NOT NULL,
    key BLOB NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    length INTEGER NOT NULL,
    words BLOB NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (collection, namespace, key)
);

CREATE INDEX memory_order ON memory (collection, no);

CREATE INDEX memory_expiry ON memory (collection, expires_at) WHERE expires_at IS NOT NULL;

-- A word is found as `<number of its collection>_<word>`, so that nobody looks at what somebody else's items hold.
CREATE VIRTUAL TABLE memory_words USING fts5 (words, content = '', detail = none, tokenize = "ascii tokenchars '_'");

CREATE TABLE memory_vector (
    no INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    signature BLOB NOT NULL,
    vector BLOB NOT NULL
);

CREATE INDEX memory_vectors ON memory_vector (collection);
