-- The tables of sql/sqlite/migrations/0001_initial.sql, with the types of PostgreSQL. See there what columns mean.

CREATE TABLE session (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    head BYTEA,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    metadata BYTEA,
    next_context BYTEA,
    UNIQUE (owner, id)
);

CREATE TABLE run (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    session BIGINT NOT NULL,
    status TEXT NOT NULL,
    holder TEXT,
    beat BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    cancel_requested INTEGER NOT NULL,
    base BYTEA,
    head BYTEA,
    events BIGINT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    stop_reason TEXT,
    answer BYTEA,
    error BYTEA,
    usage BYTEA,
    pending BYTEA,
    parent TEXT,
    UNIQUE (owner, id)
) WITH (fillfactor = 70);

CREATE INDEX run_of_session ON run (session);

CREATE INDEX run_of_parent ON run (owner, parent) WHERE parent IS NOT NULL;

CREATE INDEX run_active ON run (session, no) WHERE status IN ('queued', 'running');

CREATE INDEX run_held ON run (holder) WHERE status = 'running';

CREATE UNIQUE INDEX run_running ON run (session) WHERE status = 'running';

CREATE TABLE run_body (
    run BIGINT PRIMARY KEY,
    body BYTEA NOT NULL
);

CREATE TABLE checkpoint (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session BIGINT NOT NULL,
    run BIGINT NOT NULL,
    step BIGINT NOT NULL,
    parent BIGINT,
    id BYTEA NOT NULL,
    appended BYTEA NOT NULL,
    frontier BYTEA NOT NULL,
    created_at TEXT NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (session, id)
);

CREATE TABLE node (
    no BIGINT PRIMARY KEY,
    session BIGINT NOT NULL,
    id BYTEA NOT NULL,
    kind TEXT NOT NULL,
    parents BYTEA NOT NULL,
    resource_key BYTEA,
    created_at TEXT NOT NULL,
    payload BYTEA NOT NULL,
    UNIQUE (session, id)
);

CREATE TABLE call (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    id BYTEA NOT NULL,
    state INTEGER NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (run, id)
);

CREATE TABLE interrupt (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session BIGINT NOT NULL,
    id TEXT NOT NULL,
    run TEXT NOT NULL,
    checkpoint BYTEA NOT NULL,
    state TEXT NOT NULL,
    answered_by TEXT,
    decision BYTEA,
    body BYTEA NOT NULL,
    UNIQUE (session, id)
);

CREATE TABLE progress (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    step BIGINT NOT NULL,
    place BYTEA NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (run, step, place)
);

CREATE TABLE event (
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    first BIGINT NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (run, first)
);

-- Squeezed columns do not get smaller by being squeezed again.
ALTER TABLE checkpoint ALTER body SET STORAGE EXTERNAL;

ALTER TABLE node ALTER payload SET STORAGE EXTERNAL;

ALTER TABLE call ALTER body SET STORAGE EXTERNAL;

ALTER TABLE event ALTER body SET STORAGE EXTERNAL;

ALTER TABLE run_body ALTER body SET STORAGE EXTERNAL;

-- A whole commit in one round trip: what operations.write does query by query. Where it is refused it raises
-- SQLSTATE CL001 (fence or head), CL002 (checkpoint is there), CL003 (no such parent) or CL004 (a call may not
-- move), and nothing is changed. The number in the name grows with its arguments, so that an old program and a
-- new one can share a database.
CREATE FUNCTION write_1(
    p_owner TEXT, p_run TEXT, p_session TEXT, p_epoch BIGINT, p_at TEXT, p_expect BYTEA,
    p_first BIGINT, p_count BIGINT, p_events BYTEA,
    p_id BYTEA, p_step BIGINT, p_parent BYTEA, p_appended BYTEA, p_frontier BYTEA, p_created TEXT, p_body BYTEA,
    n_id BYTEA[], n_kind TEXT[], n_parents BYTEA[], n_key BYTEA[], n_created TEXT[], n_payload BYTEA[],
    c_id BYTEA[], c_state INTEGER[], c_body BYTEA[], c_origins INTEGER[],
    i_id TEXT[], i_run TEXT[], i_checkpoint BYTEA[], i_state TEXT[], i_by TEXT[], i_decision BYTEA[], i_body BYTEA[],
    g_step BIGINT[], g_place BYTEA[], g_body BYTEA[],
    p_status TEXT, p_reason TEXT, p_answer BYTEA, p_error BYTEA, p_usage BYTEA, p_pending BYTEA, p_finished TEXT, p_context BYTEA
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_session BIGINT;
    v_run BIGINT;
    v_checkpoint BIGINT;
    v_parent BIGINT;
BEGIN
    IF p_id IS NULL THEN
        SELECT s.no INTO v_session FROM session s WHERE s.owner = p_owner AND s.id = p_session;
    ELSE
        UPDATE session s SET head = p_id, updated_at = p_at
        WHERE s.owner = p_owner AND s.id = p_session AND s.head IS NOT DISTINCT FROM p_expect
        RETURNING s.no INTO v_session;
    END IF;
    UPDATE run r SET head = COALESCE(p_id, r.head), events = r.events + p_count,
        status = COALESCE(p_status, r.status), holder = CASE WHEN p_status IS NULL THEN r.holder END,
        stop_reason = COALESCE(p_reason, r.stop_reason), answer = COALESCE(p_answer, r.answer), error = COALESCE(p_error, r.error),
        usage = COALESCE(p_usage, r.usage), pending = COALESCE(p_pending, r.pending), finished_at = COALESCE(p_finished, r.finished_at)
    WHERE r.owner = p_owner AND r.id = p_run AND r.session = v_session AND r.epoch = p_epoch AND r.status = 'running'
        AND (p_count = 0 OR r.events + 1 = p_first)
    RETURNING r.no INTO v_run;
    IF v_run IS NULL THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'CL001';
    END IF;
    IF p_id IS NOT NULL THEN
        IF p_parent IS NOT NULL THEN
            SELECT c.no INTO v_parent FROM checkpoint c WHERE c.session = v_session AND c.id = p_parent;
            IF v_parent IS NULL THEN
                RAISE EXCEPTION 'no parent' USING ERRCODE = 'CL003';
            END IF;
        END IF;
        INSERT INTO checkpoint (session, run, step, parent, id, appended, frontier, created_at, body)
        VALUES (v_session, v_run, p_step, v_parent, p_id, p_appended, p_frontier, p_created, p_body)
        ON CONFLICT (session, id) DO NOTHING
        RETURNING no INTO v_checkpoint;
        IF v_checkpoint IS NULL THEN
            RAISE EXCEPTION 'twice' USING ERRCODE = 'CL002';
        END IF;
        INSERT INTO node (no, session, id, kind, parents, resource_key, created_at, payload)
        SELECT (v_checkpoint << 16) + n.place - 1, v_session, n.id, n.kind, n.parents, n.key, n.created, n.payload
        FROM unnest(n_id, n_kind, n_parents, n_key, n_created, n_payload) WITH ORDINALITY
            AS n (id, kind, parents, key, created, payload, place)
        ON CONFLICT (session, id) DO NOTHING;
        DELETE FROM progress g WHERE g.run = v_run AND g.step <= p_step;
    END IF;
    IF p_context IS NOT NULL THEN
        UPDATE session s SET next_context = NULL WHERE s.no = v_session AND s.next_context = p_context;
    END IF;
    FOR i IN 1 .. COALESCE(array_length(c_id, 1), 0) LOOP
        INSERT INTO call AS c (run, id, state, body) VALUES (v_run, c_id[i], c_state[i], c_body[i])
        ON CONFLICT (run, id) DO UPDATE SET state = excluded.state, body = excluded.body WHERE (c_origins[i] >> c.state) & 1 = 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION '%', i USING ERRCODE = 'CL004';
        END IF;
    END LOOP;
    FOR i IN 1 .. COALESCE(array_length(i_id, 1), 0) LOOP
        INSERT INTO interrupt AS o (session, id, run, checkpoint, state, answered_by, decision, body)
        VALUES (v_session, i_id[i], i_run[i], i_checkpoint[i], i_state[i], i_by[i], i_decision[i], i_body[i])
        ON CONFLICT (session, id) DO UPDATE SET run = excluded.run, checkpoint = excluded.checkpoint, body = excluded.body,
            answered_by = CASE o.state WHEN 'open' THEN excluded.answered_by ELSE o.answered_by END,
            decision = CASE o.state WHEN 'open' THEN excluded.decision ELSE o.decision END,
            state = CASE o.state WHEN 'open' THEN excluded.state ELSE o.state END;
    END LOOP;
    FOR i IN 1 .. COALESCE(array_length(g_step, 1), 0) LOOP
        INSERT INTO progress (run, step, place, body) VALUES (v_run, g_step[i], g_place[i], g_body[i])
        ON CONFLICT (run, step, place) DO UPDATE SET body = excluded.body;
    END LOOP;
    IF p_events IS NOT NULL THEN
        INSERT INTO event (run, first, body) VALUES (v_run, p_first, p_events);
    END IF;
END
$$;

-- The arguments of write_1 as one value, so that many commits are one argument.
CREATE TYPE writing_1 AS (
    p_owner TEXT, p_run TEXT, p_session TEXT, p_epoch BIGINT, p_at TEXT, p_expect BYTEA,
    p_first BIGINT, p_count BIGINT, p_events BYTEA,
    p_id BYTEA, p_step BIGINT, p_parent BYTEA, p_appended BYTEA, p_frontier BYTEA, p_created TEXT, p_body BYTEA,
    n_id BYTEA[], n_kind TEXT[], n_parents BYTEA[], n_key BYTEA[], n_created TEXT[], n_payload BYTEA[],
    c_id BYTEA[], c_state INTEGER[], c_body BYTEA[], c_origins INTEGER[],
    i_id TEXT[], i_run TEXT[], i_checkpoint BYTEA[], i_state TEXT[], i_by TEXT[], i_decision BYTEA[], i_body BYTEA[],
    g_step BIGINT[], g_place BYTEA[], g_body BYTEA[],
    p_status TEXT, p_reason TEXT, p_answer BYTEA, p_error BYTEA, p_usage BYTEA, p_pending BYTEA, p_finished TEXT, p_context BYTEA
);

-- Many commits in one transaction, each for itself: to each, NULL where it is written, else the SQLSTATE and the
-- message of why it is not. Given in the order of sessions, so that two groups do not wait for each other.
CREATE FUNCTION write_group_1(p_writings writing_1[]) RETURNS TEXT[] LANGUAGE plpgsql AS $$
DECLARE
    w writing_1;
    v_ends TEXT[] := '{}';
BEGIN
    FOREACH w IN ARRAY p_writings LOOP
        BEGIN
            PERFORM write_1(
                w.p_owner, w.p_run, w.p_session, w.p_epoch, w.p_at, w.p_expect, w.p_first, w.p_count, w.p_events, w.p_id, w.p_step,
                w.p_parent, w.p_appended, w.p_frontier, w.p_created, w.p_body, w.n_id, w.n_kind, w.n_parents, w.n_key, w.n_created,
                w.n_payload, w.c_id, w.c_state, w.c_body, w.c_origins, w.i_id, w.i_run, w.i_checkpoint, w.i_state, w.i_by,
                w.i_decision, w.i_body, w.g_step, w.g_place, w.g_body, w.p_status, w.p_reason, w.p_answer, w.p_error, w.p_usage,
                w.p_pending, w.p_finished, w.p_context
            );
            v_ends := v_ends || NULL::TEXT;
        EXCEPTION WHEN OTHERS THEN
            v_ends := v_ends || (SQLSTATE || ' ' || SQLERRM);
        END;
    END LOOP;
    RETURN v_ends;
END
$$;
