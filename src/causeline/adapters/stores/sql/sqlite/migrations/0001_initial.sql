-- Rows of one session are reached through small numbers (`no`), because their long names repeat in every row.
-- Ids of checkpoints and nodes are the 12 bytes behind their prefix. JSON is bytes, as encoding.py writes it.

CREATE TABLE session (
    no INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    head BLOB,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    metadata BLOB,
    next_context BLOB,
    UNIQUE (owner, id)
);

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

CREATE TABLE checkpoint (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    parent INTEGER,
    id BLOB NOT NULL,
    appended BLOB NOT NULL,
    frontier BLOB NOT NULL,
    created_at TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (session, id)
);

-- `no` is the number of the checkpoint that brought the node, times 65536, plus the node's place in it.
CREATE TABLE node (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    id BLOB NOT NULL,
    kind TEXT NOT NULL,
    parents BLOB NOT NULL,
    resource_key BLOB,
    created_at TEXT NOT NULL,
    payload BLOB NOT NULL,
    UNIQUE (session, id)
);

CREATE TABLE call (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    id BLOB NOT NULL,
    state INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, id)
);

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

-- The events of one commit; `first` is the number of the first of them.
CREATE TABLE event (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, first)
);
