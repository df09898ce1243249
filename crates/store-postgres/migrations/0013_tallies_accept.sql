-- The one way in: a program's call, a user's transaction, enqueue() and the hand-over all come here. Accepts all of the
-- jobs or none.
--
-- p_now     the time of acceptance
-- p_ids     ascending, the order in which rows are locked everywhere
-- p_places  the place of each job (from 1) in the order of acceptance
-- p_delays, p_times  when it is due; NULL, both of them: now; a delay of -1: it is held
-- p_fits    1 if the payload of the job is within its cap
-- p_calls   the call, which is remembered with its jobs; none if it is never repeated
-- p_definitions  the version of the queues' definitions by which the caller has checked the payloads; NULL: any
-- p_keys, p_lifetimes     its unique key as 32 digits, and how long it is held; NULL, both of them: it has none
-- p_conflicts, p_waits    as in keys_take; none where no job has a unique key
-- p_lines   the key that it takes turns by; NULL: it has none
-- result    'stored' if all are new, 'repeated' if the call is known, 'stale' if the definitions have changed, 'keyless' and the
--           queue if a job has a key and its queue takes none: then nothing is stored; else one
--           answer per job, in the order of p_ids: 'new', 'known' and its state, 'taken' by another job, 'large'; or that of
--           keys_take, and the job is not stored. Nothing is stored or changed where one is taken or large.
--
-- Of p_queues and p_kinds, one element stands for all jobs. Of the others but p_ids and p_payloads, none does: the jobs are in
-- the order of their places, have the default, and fit.
CREATE OR REPLACE FUNCTION accept(
    p_now int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[],
    p_definitions int8, p_keys text[], p_lifetimes text[], p_conflicts text[], p_waits int8[], p_lines text[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_seqs int8[]; -- by id
    v_queue text := p_queues[1];
    v_kind text := p_kinds[1];
    v_stored int8 := 0;
    v_more int8;
    v_answers text[];
    v_met text[]; -- by id: what a job met instead of its unique key
    v_lost int8[];
    v_keyless text;
BEGIN
    IF cardinality(p_calls) > 0 THEN
        -- Before its jobs: a repeat waits here until the first one has ended.
        INSERT INTO calls (id, accepted_at)
        SELECT p_calls[1], p_now
        WHERE p_definitions IS NULL OR p_definitions = (SELECT value FROM settings WHERE name = 'definitions')
        ON CONFLICT (id) DO NOTHING;
        IF NOT found THEN
            RETURN CASE
                WHEN p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN '{stale}'::text[]
                ELSE '{repeated}'
            END;
        END IF;
    ELSIF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN '{stale}';
    END IF;
    IF cardinality(p_lines) > 0 THEN
        -- No queue of them is removed before this transaction has ended: its jobs would stand behind gates that no claim asks.
        PERFORM 1 FROM queues AS q WHERE q.name = ANY (p_queues) ORDER BY q.name FOR KEY SHARE OF q;
        -- The first of the call names the refusal.
        SELECT (array_agg(a.queue ORDER BY a.place))[1] INTO v_keyless
        FROM (
            SELECT coalesce(p_queues[n.i], v_queue) AS queue, coalesce(p_places[n.i], n.i) AS place
            FROM generate_subscripts(p_lines, 1) AS n (i)
            WHERE p_lines[n.i] IS NOT NULL
        ) AS a
        WHERE NOT EXISTS (SELECT 1 FROM queues AS q WHERE q.name = ANY (ARRAY[a.queue]) AND q.rules >= 2);
        IF v_keyless IS NOT NULL THEN
            DELETE FROM calls WHERE id = ANY (p_calls);
            RETURN ARRAY['keyless ' || v_keyless];
        END IF;
    END IF;
    IF cardinality(p_keys) > 0
        AND EXISTS (SELECT 1 FROM generate_series(2, cardinality(p_ids)) AS i WHERE p_ids[i] = p_ids[i - 1])
    THEN
        v_answers := accept_each(
            p_now, p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries, p_specs,
            p_tags, p_fits, p_keys, p_lifetimes, p_conflicts, p_waits, p_lines
        );
        IF v_answers && '{large,taken}' OR (SELECT bool_and(a ~ '^(duplicate|replaced) ') FROM unnest(v_answers) AS a) THEN
            DELETE FROM calls WHERE id = ANY (p_calls);
        END IF;
        RETURN v_answers;
    END IF;
    SELECT array_agg(nextval('jobs_seq_seq')) INTO v_seqs FROM generate_series(1, cardinality(p_ids));
    IF cardinality(p_places) > 0 THEN
        v_seqs := ARRAY(SELECT v_seqs[p.place] FROM unnest(p_places) AS p (place));
    END IF;
    IF cardinality(p_keys) > 0 THEN
        -- Their numbers are odd.
        v_seqs := ARRAY(SELECT s.seq | (s.key IS NOT NULL)::int4 FROM unnest(v_seqs, p_keys) AS s (seq, key));
    END IF;
    IF cardinality(p_lines) > 0 THEN
        v_seqs := ARRAY(SELECT s.seq | 2 * (s.line IS NOT NULL)::int4 FROM unnest(v_seqs, p_lines) AS s (seq, line));
    END IF;
    -- Ids are made by time, mostly: then none is known between the first and the last of a call, and only what another
    -- session stores at this moment can be in the way. To look for it row by row is a sixth of what a job costs; a failure
    -- tells as well. Not for a few jobs, which share the block among them, and not where a look at ids that are not there
    -- would make other transactions fail.
    IF cardinality(p_ids) >= 10 AND 0 <> ALL (p_fits) AND current_setting('transaction_isolation') <> 'serializable'
        AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.id >= p_ids[1] AND j.id <= p_ids[cardinality(p_ids)])
    THEN
        BEGIN
            WITH stored AS (
                INSERT INTO jobs (
                    seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload,
                    unique_key, unique_lifetime, key, held
                )
                SELECT
                    a.seq, a.id, p_now, greatest(p_now, coalesce(a.due_at, later(p_now, a.delay))), later(p_now, a.expiry),
                    coalesce(a.priority, 0), coalesce(a.queue, v_queue), coalesce(a.kind, v_kind), a.spec, a.tags, a.payload,
                    a.key::uuid, a.lifetime, a.line, CASE WHEN a.delay = -1 THEN true END
                FROM (
                    SELECT
                        unnest(v_seqs) AS seq, unnest(p_ids) AS id, unnest(p_queues) AS queue, unnest(p_kinds) AS kind,
                        unnest(p_payloads) AS payload, unnest(p_priorities) AS priority, unnest(p_delays) AS delay,
                        unnest(p_times) AS due_at, unnest(p_expiries) AS expiry, unnest(p_specs) AS spec,
                        unnest(p_tags) AS tags, unnest(p_fits) AS fits, unnest(p_keys) AS key,
                        unnest(p_lifetimes) AS lifetime, unnest(p_lines) AS line
                ) AS a
                WHERE coalesce(a.fits, 1) = 1
                RETURNING
                    seq, due_at, expires_at, octet_length(payload) AS size, priority, queue, coalesce('#' || key, kind) AS kind,
                    CASE WHEN key IS NOT NULL THEN kind END AS of_kind, held
            )
            INSERT INTO waiting (
                seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind,
                of_kind
            )
            SELECT
                s.seq, s.due_at, s.expires_at, 0, 0, 0, 0, 0, s.size,
                CASE WHEN s.held THEN 0 WHEN s.due_at > p_now THEN 1 ELSE 2 END, s.priority, s.queue, s.kind, s.of_kind
            FROM stored AS s;
            v_stored := cardinality(p_ids);
        EXCEPTION
            WHEN unique_violation THEN NULL; -- Rolled back to here: they are stored one by one.
        END;
    END IF;
    -- A job that stands in the way may be gone before it is looked at: then there is room after all.
    FOR round IN 1 .. 100 LOOP
        EXIT WHEN v_stored = cardinality(p_ids);
        WITH stored AS (
            INSERT INTO jobs (
                seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload,
                unique_key, unique_lifetime, key, held
            )
            SELECT
                a.seq, a.id, p_now, greatest(p_now, coalesce(a.due_at, later(p_now, a.delay))), later(p_now, a.expiry),
                coalesce(a.priority, 0), coalesce(a.queue, v_queue), coalesce(a.kind, v_kind), a.spec, a.tags, a.payload,
                a.key::uuid, a.lifetime, a.line, CASE WHEN a.delay = -1 THEN true END
            FROM (
                SELECT
                    unnest(v_seqs) AS seq, unnest(p_ids) AS id, unnest(p_queues) AS queue, unnest(p_kinds) AS kind,
                    unnest(p_payloads) AS payload, unnest(p_priorities) AS priority, unnest(p_delays) AS delay,
                    unnest(p_times) AS due_at, unnest(p_expiries) AS expiry, unnest(p_specs) AS spec,
                    unnest(p_tags) AS tags, unnest(p_fits) AS fits, unnest(p_keys) AS key,
                    unnest(p_lifetimes) AS lifetime, unnest(p_lines) AS line
            ) AS a
            WHERE coalesce(a.fits, 1) = 1
            ON CONFLICT (id) DO NOTHING
            RETURNING
                seq, due_at, expires_at, octet_length(payload) AS size, priority, queue, coalesce('#' || key, kind) AS kind,
                CASE WHEN key IS NOT NULL THEN kind END AS of_kind, held
        )
        INSERT INTO waiting (
            seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind,
            of_kind
        )
        SELECT
            s.seq, s.due_at, s.expires_at, 0, 0, 0, 0, 0, s.size,
            CASE WHEN s.held THEN 0 WHEN s.due_at > p_now THEN 1 ELSE 2 END, s.priority, s.queue, s.kind, s.of_kind
        FROM stored AS s;
        GET DIAGNOSTICS v_more = ROW_COUNT;
        v_stored := v_stored + v_more;
        EXIT WHEN v_stored = cardinality(p_ids);
        v_answers := (
            SELECT
                array_agg(
                    CASE
                        WHEN r.seq = v_seqs[a.i] THEN 'new'
                        WHEN r.seq IS NULL AND coalesce(p_fits[a.i], 1) = 1 THEN 'gone'
                        WHEN r.seq IS NULL THEN 'large'
                        WHEN r.queue = coalesce(p_queues[a.i], v_queue) AND r.kind = coalesce(p_kinds[a.i], v_kind)
                            AND r.payload = p_payloads[a.i] THEN 'known ' || r.state
                        ELSE 'taken'
                    END
                )
            FROM unnest(p_ids) WITH ORDINALITY AS a (id, i)
            LEFT JOIN records AS r ON r.id = ANY (ARRAY[a.id])
        );
        EXIT WHEN 'gone' <> ALL (v_answers);
    END LOOP;
    IF v_stored < cardinality(p_ids) AND v_answers && '{large,taken}' THEN
        -- No other session has seen them.
        DELETE FROM waiting WHERE seq = ANY (v_seqs);
        DELETE FROM jobs WHERE seq = ANY (v_seqs);
        DELETE FROM calls WHERE id = ANY (p_calls);
        RETURN v_answers;
    END IF;
    IF cardinality(p_keys) > 0 THEN
        -- A job that is known is not stored, and takes no key.
        v_met := CASE
            WHEN v_stored = cardinality(p_ids) THEN
                keys_new(p_now, v_seqs, p_ids, p_queues, p_keys, p_lifetimes, p_conflicts, p_waits)
            ELSE keys_take(p_now, v_seqs, p_conflicts, p_waits)
        END;
    END IF;
    IF v_met IS NOT NULL THEN
        IF v_stored = cardinality(p_ids) THEN
            v_answers := NULL;
        END IF;
        v_lost := ARRAY(SELECT v_seqs[i] FROM generate_subscripts(v_met, 1) AS i WHERE v_met[i] IS NOT NULL);
        -- No other session has seen them.
        DELETE FROM waiting WHERE seq = ANY (v_lost);
        DELETE FROM jobs WHERE seq = ANY (v_lost);
        v_stored := v_stored - cardinality(v_lost);
        v_answers := ARRAY(
            SELECT coalesce(v_met[i], v_answers[i], 'new') FROM generate_subscripts(v_met, 1) AS i ORDER BY i
        );
        IF cardinality(v_lost) = cardinality(p_ids) THEN
            -- A repeat is tested anew.
            DELETE FROM calls WHERE id = ANY (p_calls);
        END IF;
    END IF;
    IF cardinality(p_lines) > 0 THEN
        IF v_stored = cardinality(p_ids) AND cardinality(p_delays) = 0 AND cardinality(p_times) = 0 THEN
            PERFORM gates_tell(p_queues, p_lines, false);
        ELSE
            PERFORM gates_tell(array_agg(w.queue::text), array_agg(substr(w.kind, 2)), false)
            FROM waiting AS w
            -- By an expression, so that no plan walks the index of all that are ready.
            WHERE w.seq = ANY (v_seqs) AND w.state + 0 = 2 AND w.kind LIKE '#%';
        END IF;
    END IF;
    IF v_stored = cardinality(p_ids) AND cardinality(p_delays) = 0 AND cardinality(p_times) = 0 THEN
        v_more := moves(
            CASE WHEN cardinality(p_queues) = 1 THEN p_queues[1] END, -1, 2, NULL, v_seqs, true, p_queues, NULL, p_kinds
        );
    ELSIF v_stored > 0 THEN
        SELECT sum(moves(NULL, -1, g.state, NULL, g.jobs, true, g.queues)) INTO v_more
        FROM (
            SELECT w.state, array_agg(w.queue::text) AS queues, array_agg(w.seq) AS jobs
            FROM waiting AS w
            WHERE w.seq = ANY (v_seqs)
            GROUP BY w.state
        ) AS g;
    END IF;
    RETURN CASE WHEN v_stored = cardinality(p_ids) THEN '{stored}' ELSE v_answers END;
END
$$;
