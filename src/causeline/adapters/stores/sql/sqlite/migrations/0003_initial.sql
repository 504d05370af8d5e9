-- Rows of one session are reached through small numbers (`no`), because their long names repeat in every row.
-- Ids of checkpoints and nodes are the 12 bytes behind their prefix. JSON is bytes, as encoding.py writes it.
-- `head` is a checkpoint and `tail` the row of the log that tells of it. A session whose run is running has that run's head, if the
-- run has one, and was last touched at its `moved_at`; both are written to the session when the run stops.

CREATE TABLE session (
    no INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    head BLOB,
    tail INTEGER,
    forked INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    metadata BLOB,
    next_context BLOB,
    UNIQUE (owner, id)
);

CREATE INDEX session_of_owner ON session (owner);

-- What changes while a run runs. `no` is its place in the queue, never used twice; `events` the number of its last event.
CREATE TABLE run (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    session INTEGER NOT NULL,
    status TEXT NOT NULL,
    holder TEXT,
    beat INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    base BLOB,
    head BLOB,
    tail INTEGER,
    moved_at TEXT,
    commits INTEGER NOT NULL,
    events INTEGER NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    stop_reason TEXT,
    answer BLOB,
    error BLOB,
    usage BLOB,
    pending BLOB,
    parent TEXT,
    UNIQUE (owner, id)
);

CREATE INDEX run_of_session ON run (session);

CREATE INDEX run_of_parent ON run (owner, parent) WHERE parent IS NOT NULL;

CREATE INDEX run_active ON run (session) WHERE status IN ('queued', 'running');

CREATE INDEX run_held ON run (holder) WHERE status = 'running';

CREATE UNIQUE INDEX run_running ON run (session) WHERE status = 'running';

-- What a run was started with. Apart from `run`, so that a step does not write it again.
CREATE TABLE run_body (
    run INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

-- A row for each commit, as log_rows.py packs it. `first` is the number of its first event, or of the one that comes next; `told`
-- and `calls` count its events and calls. `parent` is the row of the checkpoint before, `keys` its own id and those of its nodes.
CREATE TABLE log (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,
    told INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    parent INTEGER,
    keys BLOB,
    body BLOB NOT NULL
);

CREATE INDEX log_of_run ON log (run, first);

-- Where an id is: its first six bytes as a number, and the row. Filled up to the row in `placed`.
CREATE TABLE place (
    id INTEGER NOT NULL,
    no INTEGER NOT NULL,
    PRIMARY KEY (id, no)
) WITHOUT ROWID;

CREATE TABLE placed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    no INTEGER NOT NULL
);

INSERT INTO placed (one, no) VALUES (1, 0);

CREATE TABLE interrupt (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    run TEXT NOT NULL,
    checkpoint BLOB NOT NULL,
    state TEXT NOT NULL,
    answered_by TEXT,
    decision BLOB,
    body BLOB NOT NULL,
    UNIQUE (session, id)
);

CREATE TABLE progress (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    place BLOB NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, step, place)
);

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
