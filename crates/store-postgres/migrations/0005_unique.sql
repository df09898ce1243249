-- Unique keys: of a queue's jobs at most one holds a key at a time. Keys are taken by accept and by a retry by hand, and given
-- up by moves, whichever program calls.

-- As they were handed in. Whether a job holds its key still is said by the table below.
ALTER TABLE jobs
    ADD COLUMN unique_key uuid,                   -- compared within the queue; NULL for most
    ADD COLUMN unique_lifetime text COLLATE "C";  -- start, end, or window or slot and the number of microseconds

-- The number of a job with a key is odd, so that a lone job without one is known by its number. Others have even numbers from
-- here on. Those of before, which may be odd, are looked for in vain.
ALTER TABLE jobs ALTER COLUMN seq SET INCREMENT BY 2;
SELECT setval('jobs_seq_seq', last_value / 2 * 2 + 2) FROM jobs_seq_seq;

-- Keys that are held.
CREATE TABLE keys (
    queue    text COLLATE "C",
    digest   uuid,
    seq      int8 NOT NULL,                       -- the job that holds it, which may be gone
    id       uuid NOT NULL,                       -- of that job
    free_at  int8,                                -- from when on it is free; NULL: the job decides
    at_start bool NOT NULL,                       -- it is given up when the job is claimed
    PRIMARY KEY (queue, digest)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

-- Two of them, each for what it is looked for by: a key is in one.
CREATE INDEX keys_job ON keys (seq) WHERE free_at IS NULL;
CREATE INDEX keys_oldest ON keys (free_at) WHERE free_at IS NOT NULL;

-- From when on a key is free that is taken now; NULL where the job decides.
CREATE FUNCTION key_free_at(p_now int8, p_lifetime text) RETURNS int8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    v_span int8;
BEGIN
    IF p_lifetime IN ('start', 'end') THEN
        RETURN NULL;
    END IF;
    v_span := greatest(split_part(p_lifetime, ' ', 2)::int8, 1);
    RETURN later(CASE WHEN p_lifetime LIKE 'slot %' THEN p_now - p_now % v_span ELSE p_now END, v_span);
END
$$;

-- Gives their keys to jobs, as far as no other job holds them. Jobs without a key are passed over.
--
-- No lock is taken that a claim, a settlement or a reaper needs: a key that is held is read only. It waits for a transaction
-- that has taken the same key, or given it up, and has not ended. A holder that takes over what another job says is locked
-- where it waits: a claim passes it over until this transaction has ended, and finds the new payload.
--
-- p_jobs       their numbers, in any order: a lower one was handed in before
-- p_conflicts  what a job does that meets the holder of its key: keep, replace or debounce; none: all keep
-- p_waits      how long after its acceptance a debounced holder is due at the latest; NULL: any time
-- result       NULL if each has its key; else by place: NULL, or 'duplicate', the holder's id and its state, which one that is
--              gone does not have, or 'replaced' and the holder's id. What is not to be stored is removed by the caller
CREATE FUNCTION keys_take(p_now int8, p_jobs int8[], p_conflicts text[], p_waits int8[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_wanted int8;
    v_taken int8[];
    v_met text[];
    v_job record;
    v_holder record;
BEGIN
    -- In one order everywhere. Of jobs with one key, the first one gets it.
    WITH wanted AS MATERIALIZED (
        SELECT j.queue, j.unique_key, j.seq, j.id, key_free_at(p_now, j.unique_lifetime) AS free_at, j.unique_lifetime
        FROM jobs AS j
        WHERE j.seq = ANY (p_jobs) AND j.unique_key IS NOT NULL
        ORDER BY j.queue, j.unique_key, j.seq
    ), taken AS (
        INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
        SELECT queue, unique_key, seq, id, free_at, unique_lifetime = 'start' FROM wanted
        ON CONFLICT (queue, digest) DO NOTHING
        RETURNING seq
    )
    SELECT (SELECT count(*) FROM wanted), coalesce(array_agg(seq), '{}') INTO v_wanted, v_taken FROM taken;
    IF cardinality(v_taken) = v_wanted THEN
        RETURN NULL;
    END IF;
    v_met := array_fill(NULL::text, ARRAY[cardinality(p_jobs)]);
    FOR v_job IN
        SELECT
            j.seq, j.id, j.queue, j.unique_key, j.unique_lifetime, p.place, coalesce(p_conflicts[p.place], 'keep') AS conflict,
            p_waits[p.place] AS wait
        FROM unnest(p_jobs) WITH ORDINALITY AS p (seq, place)
        JOIN jobs AS j ON j.seq = ANY (ARRAY[p.seq])
        WHERE j.unique_key IS NOT NULL AND NOT j.seq = ANY (v_taken)
        ORDER BY j.queue, j.unique_key, j.seq
    LOOP
        v_met[v_job.place] := 'open';
        -- A holder may give its key up, or start, between two looks.
        FOR round IN 1 .. 100 LOOP
            SELECT
                k.seq, k.id, k.free_at,
                coalesce(
                    (SELECT w.state FROM waiting AS w WHERE w.seq = k.seq), (SELECT 3 FROM running AS r WHERE r.seq = k.seq),
                    (SELECT e.state FROM ended AS e WHERE e.seq = k.seq)
                ) AS state
            INTO v_holder
            FROM keys AS k
            WHERE k.queue = v_job.queue AND k.digest = v_job.unique_key;
            IF NOT found OR v_holder.free_at <= p_now THEN
                -- Of several that find its time over, the others wait here for the first one, and meet it then.
                DELETE FROM keys
                WHERE queue = v_job.queue AND digest = v_job.unique_key AND seq = v_holder.seq AND free_at <= p_now;
                INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
                VALUES (
                    v_job.queue, v_job.unique_key, v_job.seq, v_job.id, key_free_at(p_now, v_job.unique_lifetime),
                    v_job.unique_lifetime = 'start'
                )
                ON CONFLICT (queue, digest) DO NOTHING;
                CONTINUE WHEN NOT found;
                v_met[v_job.place] := NULL;
            ELSIF v_holder.seq = v_job.seq THEN
                v_met[v_job.place] := NULL;
            ELSIF v_job.conflict <> 'keep' AND v_holder.state < 3 THEN
                PERFORM 1 FROM waiting WHERE seq = v_holder.seq FOR UPDATE;
                CONTINUE WHEN NOT found;
                -- One that has started meanwhile and is back may wait without its key.
                PERFORM 1 FROM keys AS k
                WHERE k.queue = v_job.queue AND k.digest = v_job.unique_key AND k.seq = v_holder.seq;
                CONTINUE WHEN NOT found;
                -- An outcome of before comes too late: it was about another payload.
                UPDATE waiting AS w
                SET
                    size = octet_length(n.payload), nonce = NULL,
                    due_at = CASE
                        WHEN w.state = 1 AND v_job.conflict = 'debounce'
                            THEN least(n.due_at, later(h.enqueued_at, v_job.wait))
                        ELSE w.due_at
                    END
                FROM jobs AS n, jobs AS h
                WHERE n.seq = v_job.seq AND h.seq = v_holder.seq AND w.seq = v_holder.seq;
                UPDATE jobs AS h
                SET payload = n.payload, spec = n.spec, tags = n.tags
                FROM jobs AS n
                WHERE n.seq = v_job.seq AND h.seq = v_holder.seq;
                v_met[v_job.place] := 'replaced ' || v_holder.id;
            ELSE
                v_met[v_job.place] := concat_ws(' ', 'duplicate', v_holder.id, v_holder.state);
            END IF;
            EXIT;
        END LOOP;
        IF v_met[v_job.place] = 'open' THEN
            RAISE EXCEPTION 'the unique key of job % is taken and given up again and again', v_job.id
            USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
    RETURN v_met;
END
$$;

-- Gives its key to a job that has ended and begins anew, if the key ends with the job. The caller has locked the job.
--
-- result  NULL if it may begin; else the id of the job that holds the key, or 'locked' by a transaction that has not ended,
--         which is not waited for
CREATE FUNCTION key_again(p_now int8, p_job int8) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_timeout text := current_setting('lock_timeout');
    v_answer text;
BEGIN
    PERFORM 1 FROM jobs WHERE seq = p_job AND unique_lifetime IN ('start', 'end');
    IF NOT found THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('lock_timeout', '10ms', true);
    BEGIN
        v_answer := split_part((keys_take(p_now, ARRAY[p_job], '{}', '{}'))[1], ' ', 2);
    EXCEPTION
        WHEN lock_not_available THEN v_answer := 'locked';
    END;
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN v_answer;
END
$$;

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
-- written them.
CREATE OR REPLACE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
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
    -- Tallies come here, by queue, p_to and p_reason; then gates, which a job gives back when it leaves running (p_from = 3).
    IF p_jobs[1] & 1 = 1 OR cardinality(p_jobs) > 1 THEN
        IF p_to > 2 OR p_to < 0 THEN
            DELETE FROM keys
            WHERE seq = ANY (ARRAY(SELECT j.seq FROM unnest(p_jobs) AS j (seq) WHERE j.seq & 1 = 1))
                AND free_at IS NULL AND (at_start OR p_to <> 3);
        ELSIF p_from > 3 THEN
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
