-- Keys of jobs: those of one key stand in a line of their own behind its gate, and take turns with others. And the capacity of
-- queues.

-- As it was handed in; NULL for most. In waiting a job with a key has '#' and its key in place of its kind, which no kind can be:
-- so its line is a part of waiting_ready like any other, and claims that do not know of keys never meet it.
ALTER TABLE jobs ADD COLUMN key text COLLATE "C";

-- Beside the first bit, which says that a job has a unique key, the second says that it has a key. Jobs of before, which may have
-- it, are looked for in vain.
ALTER TABLE jobs ALTER COLUMN seq SET INCREMENT BY 4;
SELECT setval('jobs_seq_seq', last_value / 4 * 4 + 4) FROM jobs_seq_seq;

-- How many of its jobs may wait; NULL: any number. What the definition says, for accept_room.
ALTER TABLE queues ADD COLUMN capacity int8;

-- Gates of keys that have ready jobs, or had some when a claim last looked. Written by claims, which lock the definition of the
-- queue for it, and by a definition.
CREATE TABLE gates (
    queue   text COLLATE "C",
    key     text COLLATE "C",
    turn    int8 NOT NULL,
    open_at int8 NOT NULL,                        -- 0: it is open; else when it opens, the end of time for an end or a definition
    PRIMARY KEY (queue, key)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE INDEX gates_open ON gates (queue, turn, key) WHERE open_at = 0;
CREATE INDEX gates_closed ON gates (queue, open_at) WHERE open_at > 0;

-- What gates have to be told. Every call that lets jobs with a key become ready or end adds a row, also one within a user's
-- transaction, and so locks nothing that a claim needs; the next claim that looks at the gates takes them away.
CREATE TABLE gate_notes (
    id    int8 GENERATED ALWAYS AS IDENTITY,
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    came  bool NOT NULL,                          -- a job is ready: there is a gate from now on
    ended bool NOT NULL                           -- a job runs no longer: the gate opens
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE INDEX gate_notes_queue ON gate_notes (queue, id);

-- Jobs with a key that run: so many of each key are counted.
CREATE TABLE gate_jobs (
    seq   int8 PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE INDEX gate_jobs_key ON gate_jobs (queue, key);

-- Permits of the rates of keys, as in spent.
CREATE TABLE key_spent (
    queue   text COLLATE "C",
    key     text COLLATE "C",
    back_at int8,
    jobs    int8 NOT NULL,                        -- 0: a bucket, which is full at that instant
    PRIMARY KEY (queue, key, back_at)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX key_spent_oldest ON key_spent (back_at);

-- The one way for a job from a state to the next. Functions that write where a job stands call it in the same transaction,
-- once for all jobs that go the same way, and it does what follows from that.
--
-- p_queue       the queue of all of them; NULL: p_queues has the queue of each
-- p_from, p_to  states; -1 for outside: before it is accepted, and after it is removed
-- p_reason      why it is dead or cancelled
-- p_jobs        their numbers; at least one
-- p_is_kept     false where the queue keeps none of this end: they come to it, and are removed at once
-- result        how many there are
--
-- It is told everything and looks at no row that says where these jobs stand: the statement that it is called in may not have
-- written them. The gates of jobs that are accepted are told by accept.
CREATE OR REPLACE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_bits int8;
    v_job int8;
    v_answer text;
BEGIN
    IF p_queue IS NOT NULL THEN
        INSERT INTO moved (state_before, state, jobs, queue)
        VALUES (p_from, CASE WHEN p_is_kept THEN p_to ELSE -1 END, cardinality(p_jobs), p_queue);
    ELSE
        INSERT INTO moved (state_before, state, jobs, queue)
        SELECT p_from, CASE WHEN p_is_kept THEN p_to ELSE -1 END, count(*), q.name
        FROM unnest(p_queues) AS q (name)
        GROUP BY q.name;
    END IF;
    -- Tallies come here, by queue, p_to and p_reason. Then what is known by the numbers of jobs, of which most have neither bit.
    IF p_from >= 0 AND (p_jobs[1] & 3 <> 0 OR cardinality(p_jobs) > 1) THEN
        v_bits := CASE
            WHEN cardinality(p_jobs) = 1 THEN p_jobs[1] ELSE (SELECT bit_or(j.seq) FROM unnest(p_jobs) AS j (seq))
        END;
        IF v_bits & 2 = 2 AND p_from = 3 THEN
            WITH gone AS (
                DELETE FROM gate_jobs WHERE seq = ANY (p_jobs) RETURNING queue, key
            )
            INSERT INTO gate_notes (queue, key, came, ended)
            SELECT g.queue, g.key, false, true FROM gone AS g GROUP BY g.queue, g.key;
        END IF;
        IF v_bits & 2 = 2 AND p_to = 2 THEN
            INSERT INTO gate_notes (queue, key, came, ended)
            SELECT j.queue, j.key, true, false
            FROM jobs AS j
            WHERE j.seq = ANY (p_jobs) AND j.key IS NOT NULL
            GROUP BY j.queue, j.key;
        END IF;
        IF v_bits & 1 = 1 AND (p_to > 2 OR p_to < 0) THEN
            DELETE FROM keys
            WHERE seq = ANY (ARRAY(SELECT j.seq FROM unnest(p_jobs) AS j (seq) WHERE j.seq & 1 = 1))
                AND free_at IS NULL AND (at_start OR p_to <> 3);
        ELSIF v_bits & 1 = 1 AND p_from > 3 THEN
            -- A program that knows of keys has asked before. One that does not must not let a job run beside the holder.
            FOREACH v_job IN ARRAY p_jobs LOOP
                v_answer := key_again(clock_micros(), v_job);
                IF v_answer IS NOT NULL THEN
                    RAISE EXCEPTION 'another job (%) holds the unique key: retry with a newer program', v_answer
                    USING ERRCODE = 'lock_not_available';
                END IF;
            END LOOP;
        END IF;
    END IF;
    -- Here come, in this order: dependents, which are told of an end; follow-ups, which are accepted at an end.
    RETURN cardinality(p_jobs);
END
$$;
