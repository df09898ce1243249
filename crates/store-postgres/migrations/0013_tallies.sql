-- Tallies: what happens to jobs, by queue, kind and minute. Calls add rows without an index, in the statement that they count, and
-- maintenance folds them into a row for each interval, as for the counters.
CREATE TABLE tallied (
    minute int8 NOT NULL,                         -- when it began
    times  int8 NOT NULL,
    cell   int2 NOT NULL,                         -- what was counted, and how long it took; see the core
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL              -- empty: not known
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE TABLE tallies (
    at    int8 NOT NULL,                          -- when the interval began
    step  int2 NOT NULL,                          -- its minutes: 1, 10, 60
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,              -- empty: kinds that are counted together
    cells int2[] NOT NULL,                        -- in order
    times int8[] NOT NULL,                        -- of each cell
    PRIMARY KEY (queue, step, at, kind)
) WITH (fillfactor = 70);

CREATE INDEX tallies_time ON tallies (step, at);

-- The bucket of a time in micros: the first whose bound, a power of two in milliseconds, is not less.
CREATE FUNCTION tally_bucket(p_micros int8) RETURNS int4
LANGUAGE sql IMMUTABLE
AS $$
    SELECT width_bucket(
        p_micros::float8,
        '{1001,2001,4001,8001,16001,32001,64001,128001,256001,512001,1024001,2048001,4096001,8192001,16384001,32768001,65536001,131072001,262144001,524288001,1048576001,2097152001,4194304001,8388608001,16777216001,33554432001,67108864001,134217728001,268435456001,536870912001}'::float8[]
    )
$$;

-- What the end of an attempt, or of a job, is counted as: a code of the core.
CREATE FUNCTION tally_count(p_state int8, p_reason text, p_ending text) RETURNS int4
LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE
        WHEN p_state = 4 THEN 2
        WHEN p_state = 6 THEN 7
        WHEN p_state = 5 THEN
            CASE p_reason
                WHEN 'attempts_exhausted' THEN 8 WHEN 'ambiguous' THEN 10 WHEN 'stalled' THEN 11 WHEN 'unreadable' THEN 12
                WHEN 'expired' THEN 13 ELSE 9
            END
        ELSE CASE p_ending WHEN 'snoozed' THEN 4 WHEN 'returned' THEN 5 WHEN 'stalled' THEN 6 ELSE 3 END
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
-- p_keys        the key of each, which claims take turns by; NULL: jobs has them, but for jobs that are removed
-- p_kinds       the kind of each, or one for all; NULL: jobs has them, but for jobs that are removed
-- p_is_counted  true where the caller has counted them in tallies, with the times that it knows
-- result        how many there are
--
-- It is told everything and looks at no row that says where these jobs stand: the statement that it is called in may not have
-- written them. The gates of jobs that are accepted are told by accept.
DROP FUNCTION moves(text, int8, int8, text, int8[], bool, text[], text[]);
CREATE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL, p_keys text[] DEFAULT NULL, p_kinds text[] DEFAULT NULL, p_is_counted bool DEFAULT false
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_bits int8;
    v_queues text[];
    v_keys text[];
    v_job int8;
    v_answer text;
    v_cell int4;
    v_minute int8;
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
    IF NOT p_is_counted THEN
        v_cell := 31 + 32 * CASE
            WHEN p_from < 0 THEN 0
            WHEN p_to = 3 THEN 1
            WHEN p_to > 3 OR p_from = 3 THEN tally_count(p_to, p_reason, NULL)
            WHEN p_from > 3 AND p_to = 2 THEN 14
            WHEN p_from < 3 AND p_to < 0 THEN 15
        END;
        v_minute := clock_micros() / 60000000 * 60000000;
        IF v_cell IS NULL THEN
            NULL; -- Promotions are not counted, and neither is the removal of what has ended.
        ELSIF p_queue IS NOT NULL AND cardinality(p_kinds) = 1 THEN
            INSERT INTO tallied (minute, times, cell, queue, kind)
            VALUES (v_minute, cardinality(p_jobs), v_cell, p_queue, p_kinds[1]);
        ELSE
            INSERT INTO tallied (minute, times, cell, queue, kind)
            SELECT v_minute, count(*), v_cell, a.queue, a.kind
            FROM (
                SELECT
                    coalesce(p_queue, p_queues[i], p_queues[1]) AS queue,
                    coalesce(
                        p_kinds[i], p_kinds[1], (SELECT j.kind::text FROM jobs AS j WHERE j.seq = ANY (ARRAY[p_jobs[i]])), ''
                    ) AS kind
                FROM generate_subscripts(p_jobs, 1) AS i
            ) AS a
            GROUP BY a.queue, a.kind;
        END IF;
    END IF;
    -- Then what is known by the numbers of jobs, of which most have neither bit.
    IF p_from >= 0 AND (p_jobs[1] & 3 <> 0 OR cardinality(p_jobs) > 1) THEN
        v_bits := CASE
            WHEN cardinality(p_jobs) = 1 THEN p_jobs[1] ELSE (SELECT bit_or(j.seq) FROM unnest(p_jobs) AS j (seq))
        END;
        IF v_bits & 2 = 2 AND p_from = 3 THEN
            PERFORM gates_left(CASE WHEN p_queue IS NULL THEN p_queues ELSE ARRAY[p_queue] END, p_jobs, p_keys);
        END IF;
        IF v_bits & 2 = 2 AND p_to = 2 THEN
            SELECT array_agg(j.queue::text), array_agg(j.key::text) INTO v_queues, v_keys
            FROM jobs AS j
            WHERE j.seq = ANY (p_jobs) AND j.key IS NOT NULL;
            PERFORM gates_tell(v_queues, v_keys, false);
        END IF;
        IF v_bits & 1 = 1 AND (p_to > 2 OR p_to < 0) THEN
            PERFORM keys_leave(p_jobs, p_to = 3);
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

-- The short form of accept, for one plain job; see migration 3.
CREATE OR REPLACE FUNCTION accept_plain(
    p_now int8, p_id uuid, p_queue text, p_kind text, p_payload bytea, p_priority int8, p_spec text, p_tags text, p_call uuid,
    p_definitions int8
) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_seq int8;
    v_answer text;
BEGIN
    INSERT INTO calls (id, accepted_at)
    SELECT p_call, p_now WHERE p_definitions = (SELECT value FROM settings WHERE name = 'definitions')
    ON CONFLICT (id) DO NOTHING;
    IF NOT found THEN
        RETURN CASE
            WHEN p_definitions = (SELECT value FROM settings WHERE name = 'definitions') THEN 'repeated' ELSE 'stale'
        END;
    END IF;
    INSERT INTO jobs (seq, id, enqueued_at, due_at, priority, queue, kind, spec, tags, payload)
    VALUES (nextval('jobs_seq_seq'), p_id, p_now, p_now, p_priority, p_queue, p_kind, p_spec, p_tags, p_payload)
    ON CONFLICT (id) DO NOTHING
    RETURNING seq INTO v_seq;
    IF found THEN
        INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
        VALUES (v_seq, p_now, 0, 0, 0, 0, 0, octet_length(p_payload), 2, p_priority, p_queue, p_kind);
        v_seq := moves(p_queue, -1, 2, NULL, ARRAY[v_seq], p_kinds => ARRAY[p_kind]);
        RETURN 'stored';
    END IF;
    v_answer := (
        accept(
            p_now, ARRAY[p_id], '{}', ARRAY[p_queue], ARRAY[p_kind], ARRAY[p_payload], ARRAY[p_priority], '{}', '{}', '{}',
            ARRAY[p_spec], ARRAY[p_tags], '{}', '{}'
        )
    )[1];
    IF v_answer = 'taken' THEN
        DELETE FROM calls WHERE id = p_call;
    END IF;
    RETURN v_answer;
END
$$;

-- The short form of accept, for many jobs that are alike; see migration 10.
CREATE OR REPLACE FUNCTION accept_alike(
    p_now int8, p_ids uuid[], p_queue text, p_kind text, p_payloads bytea[], p_priority int8, p_delay int8, p_spec text,
    p_tags text, p_call uuid, p_definitions int8, p_keys uuid[], p_lifetime text
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_due_at int8 := greatest(p_now, later(p_now, p_delay));
    v_state int8 := CASE WHEN v_due_at > p_now THEN 1 ELSE 2 END;
    -- The number of a job with a unique key is odd.
    v_bit int8 := CASE WHEN cardinality(p_keys) > 0 THEN 1 ELSE 0 END;
    v_seqs int8[];
    v_met text[];
    v_lost int8[];
BEGIN
    IF current_setting('transaction_isolation') = 'serializable'
        OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.id >= p_ids[1] AND j.id <= p_ids[cardinality(p_ids)])
    THEN
        RETURN NULL;
    END IF;
    BEGIN
        -- Before its jobs: a repeat waits here until the first one has ended.
        INSERT INTO calls (id, accepted_at)
        SELECT p_call, p_now WHERE p_definitions = (SELECT value FROM settings WHERE name = 'definitions')
        ON CONFLICT (id) DO NOTHING;
        IF NOT found THEN
            RETURN CASE
                WHEN p_definitions = (SELECT value FROM settings WHERE name = 'definitions') THEN '{repeated}'::text[]
                ELSE '{stale}'
            END;
        END IF;
        WITH stored AS (
            INSERT INTO jobs (
                seq, id, enqueued_at, due_at, priority, queue, kind, spec, tags, payload, unique_key, unique_lifetime
            )
            SELECT
                nextval('jobs_seq_seq') | v_bit, a.id, p_now, v_due_at, p_priority, p_queue, p_kind, p_spec, p_tags, a.payload,
                a.key, p_lifetime
            FROM (SELECT unnest(p_ids) AS id, unnest(p_payloads) AS payload, unnest(p_keys) AS key) AS a
            RETURNING seq, octet_length(payload) AS size
        ), placed AS (
            INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
            SELECT s.seq, v_due_at, 0, 0, 0, 0, 0, s.size, v_state, p_priority, p_queue, p_kind
            FROM stored AS s
        )
        SELECT array_agg(s.seq) INTO v_seqs FROM stored AS s;
    EXCEPTION
        WHEN unique_violation THEN RETURN NULL; -- Rolled back to here, the call as well.
    END;
    IF v_bit = 1 THEN
        v_met := keys_alike(p_now, v_seqs, p_ids, p_queue, p_keys, p_lifetime);
    END IF;
    IF v_met IS NULL THEN
        PERFORM moves(p_queue, -1, v_state, NULL, v_seqs, p_kinds => ARRAY[p_kind]);
        RETURN '{stored}';
    END IF;
    v_lost := ARRAY(SELECT v_seqs[i] FROM generate_subscripts(v_met, 1) AS i WHERE v_met[i] IS NOT NULL);
    -- No other session has seen them.
    DELETE FROM waiting WHERE seq = ANY (v_lost);
    DELETE FROM jobs WHERE seq = ANY (v_lost);
    IF cardinality(v_lost) = cardinality(p_ids) THEN
        -- A repeat is tested anew.
        DELETE FROM calls WHERE id = p_call;
    ELSE
        v_seqs := ARRAY(SELECT v_seqs[i] FROM generate_subscripts(v_met, 1) AS i WHERE v_met[i] IS NULL);
        PERFORM moves(p_queue, -1, v_state, NULL, v_seqs, p_kinds => ARRAY[p_kind]);
    END IF;
    RETURN ARRAY(SELECT coalesce(v_met[i], 'new') FROM generate_subscripts(v_met, 1) AS i ORDER BY i);
END
$$;

-- The short form of accept, for one plain job that a claim takes at once; see migration 10.
CREATE OR REPLACE FUNCTION accept_started(
    p_now int8, p_id uuid, p_queue text, p_kind text, p_payload bytea, p_priority int8, p_spec text, p_tags text, p_call uuid,
    p_lease int8, p_nonce int8, p_worker text
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_seq int8;
BEGIN
    INSERT INTO calls (id, accepted_at) VALUES (p_call, p_now) ON CONFLICT (id) DO NOTHING;
    IF NOT found THEN
        RETURN NULL;
    END IF;
    INSERT INTO jobs (seq, id, enqueued_at, due_at, priority, queue, kind, spec, tags, payload)
    VALUES (nextval('jobs_seq_seq'), p_id, p_now, p_now, p_priority, p_queue, p_kind, p_spec, p_tags, p_payload)
    ON CONFLICT (id) DO NOTHING
    RETURNING seq INTO v_seq;
    IF NOT found THEN
        DELETE FROM calls WHERE id = p_call;
        RETURN NULL;
    END IF;
    -- Calls that end the lease wait for this one, or this one for them. By a time that is read after the wait.
    INSERT INTO running (
        seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker
    )
    SELECT v_seq, p_lease, p_nonce, 1, p_now, p_now, 0, 1, 0, 0, false, p_worker
    FROM (SELECT l.expires_at FROM leases AS l WHERE l.key = p_lease OFFSET 0 FOR KEY SHARE OF l) AS l
    WHERE l.expires_at > clock_micros();
    IF found THEN
        PERFORM moves(p_queue, -1, 2, NULL, ARRAY[v_seq], p_kinds => ARRAY[p_kind]);
        PERFORM moves(p_queue, 2, 3, NULL, ARRAY[v_seq], p_is_counted => true);
        -- It has not waited.
        INSERT INTO tallied (minute, times, cell, queue, kind) VALUES (p_now / 60000000 * 60000000, 1, 32, p_queue, p_kind);
        RETURN v_seq;
    END IF;
    INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
    VALUES (v_seq, p_now, 0, 0, 0, 0, 0, octet_length(p_payload), 2, p_priority, p_queue, p_kind);
    PERFORM moves(p_queue, -1, 2, NULL, ARRAY[v_seq], p_kinds => ARRAY[p_kind]);
    RETURN 0;
END
$$;
