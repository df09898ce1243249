-- Many jobs at once that are alike but for their ids, payloads and unique keys, for less.

-- By the digest first: it tells almost any two keys apart by itself, and has a fixed place in an entry.
ALTER TABLE keys DROP CONSTRAINT keys_pkey;
ALTER TABLE keys ADD CONSTRAINT keys_pkey PRIMARY KEY (digest, queue);
-- For the removal of a queue, which leaves none. Of jobs that are gone there are only keys that are held for a time.
CREATE INDEX keys_timed ON keys (queue) WHERE free_at IS NOT NULL;
-- What a job holds is found by what it was handed in with: every key that is taken wrote an entry here.
DROP INDEX keys_job;

-- Gives up the keys of jobs that start or come to their end; of those that start only keys that are held until then. Jobs that are
-- removed by now have none left.
CREATE FUNCTION keys_leave(p_jobs int8[], p_at_start bool) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM keys AS k
    USING jobs AS j
    WHERE j.seq = ANY (ARRAY(SELECT p.seq FROM unnest(p_jobs) AS p (seq) WHERE p.seq & 1 = 1))
        AND (j.unique_lifetime = 'start' OR j.unique_lifetime = 'end' AND NOT p_at_start)
        -- So that each is looked up.
        AND k.digest = ANY (ARRAY[j.unique_key]) AND k.queue = ANY (ARRAY[j.queue]) AND k.seq = ANY (ARRAY[j.seq])
        AND k.free_at IS NULL;
END
$$;

-- The same for a job that is removed, whichever call removes it.
CREATE FUNCTION keys_gone() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM keys AS k
    WHERE k.digest = OLD.unique_key AND k.queue = OLD.queue AND k.seq = OLD.seq AND k.free_at IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER keys_gone AFTER DELETE ON jobs
FOR EACH ROW WHEN (OLD.unique_lifetime IN ('start', 'end'))
EXECUTE FUNCTION keys_gone();

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
    v_queues text[];
    v_keys text[];
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
            SELECT array_agg(g.queue::text), array_agg(g.key::text) INTO v_queues, v_keys FROM gone AS g;
            PERFORM gates_tell(v_queues, v_keys, true);
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

-- Gives their unique keys to jobs of one queue that were stored just now, and answers, as keys_take does. Mostly all of the keys
-- are free: then they are stored without asking for each, and a failure tells as well. Not where one of a few is held, for
-- then there may be many.
CREATE FUNCTION keys_alike(p_now int8, p_jobs int8[], p_ids uuid[], p_queue text, p_keys uuid[], p_lifetime text)
RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_free_at int8 := key_free_at(p_now, p_lifetime);
    v_is_at_start bool := p_lifetime = 'start';
BEGIN
    IF NOT EXISTS (
        SELECT 1
        FROM generate_series(1, cardinality(p_keys), (cardinality(p_keys) + 9) / 10) AS n (i)
        WHERE (SELECT true FROM keys AS k WHERE k.digest = p_keys[n.i] AND k.queue = p_queue)
    ) THEN
        BEGIN
            -- In one order everywhere.
            INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
            SELECT p_queue, a.key, a.seq, a.id, v_free_at, v_is_at_start
            FROM (SELECT unnest(p_keys) AS key, unnest(p_jobs) AS seq, unnest(p_ids) AS id) AS a
            ORDER BY a.key;
            RETURN NULL;
        EXCEPTION
            WHEN unique_violation THEN NULL; -- Rolled back to here: each is asked for.
        END;
    END IF;
    RETURN keys_take(p_now, p_jobs, '{}', '{}');
END
$$;

-- The short form of accept, for many jobs that are alike. All of them fit, and are in the order of their places. If a unique key
-- is held, the holder stays as it is.
--
-- p_delay    after which they are due; NULL: now
-- p_keys     their unique keys, and p_lifetime how long they are held; none, and NULL: they have none
-- result     as that of accept; NULL: nothing is stored, and accept is to be asked, since an id may be known, or a look at ids that
--            are not there would make other transactions fail
CREATE FUNCTION accept_alike(
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
        PERFORM moves(p_queue, -1, v_state, NULL, v_seqs);
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
        PERFORM moves(p_queue, -1, v_state, NULL, v_seqs);
    END IF;
    RETURN ARRAY(SELECT coalesce(v_met[i], 'new') FROM generate_subscripts(v_met, 1) AS i ORDER BY i);
END
$$;

-- The short form of accept, for one plain job that a claim takes at once: the caller has found that it is the first of its queue,
-- which has no rules, and that its payload is within its cap.
--
-- p_lease   the number of the lease, p_nonce the nonce of the claim, p_worker the label of the worker
-- result    the number of the job; 0 if the lease is lost, and the job waits; NULL if nothing is stored, and accept_plain is to be
--           asked, since the call or the id is known
CREATE FUNCTION accept_started(
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
        PERFORM moves(p_queue, -1, 2, NULL, ARRAY[v_seq]);
        PERFORM moves(p_queue, 2, 3, NULL, ARRAY[v_seq]);
        RETURN v_seq;
    END IF;
    INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
    VALUES (v_seq, p_now, 0, 0, 0, 0, 0, octet_length(p_payload), 2, p_priority, p_queue, p_kind);
    PERFORM moves(p_queue, -1, 2, NULL, ARRAY[v_seq]);
    RETURN 0;
END
$$;
