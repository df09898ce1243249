-- What must be true whichever program calls. Functions of programs (see src/functions.rs) call these by their names, which
-- stay; a later step may replace their bodies.

-- The one way for a job from a state to the next. Functions that write where a job stands call it in the same transaction,
-- once for all jobs that go the same way, and it does what follows from that.
--
-- p_from, p_to  states; -1 for outside: before it is accepted, and after it is removed
-- p_reason      why it is dead or cancelled
-- p_jobs        their numbers; at least one
-- p_is_kept     false where the queue keeps none of this end: they come to it, and are removed at once
-- result        how many there are
--
-- It is told everything and looks at no row of these jobs: the statement that it is called in may not have written them.
CREATE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_count int8 := cardinality(p_jobs);
    v_to int8 := CASE WHEN p_is_kept THEN p_to ELSE -1 END;
BEGIN
    INSERT INTO counts (queue, blocked, scheduled, ready, running, completed, dead, cancelled)
    VALUES (
        p_queue,
        v_count * ((v_to = 0)::int4 - (p_from = 0)::int4),
        v_count * ((v_to = 1)::int4 - (p_from = 1)::int4),
        v_count * ((v_to = 2)::int4 - (p_from = 2)::int4),
        v_count * ((v_to = 3)::int4 - (p_from = 3)::int4),
        v_count * ((v_to = 4)::int4 - (p_from = 4)::int4),
        v_count * ((v_to = 5)::int4 - (p_from = 5)::int4),
        v_count * ((v_to = 6)::int4 - (p_from = 6)::int4)
    );
    -- Here come, in this order:
    -- tallies, by queue, p_to and p_reason;
    -- gates, which a job gives back when it leaves running (p_from = 3);
    -- unique keys, which it gives back at its start (p_to = 3) or its end (p_to of 4, 5, 6 and -1);
    -- dependents, which are told of an end;
    -- follow-ups, which are accepted at an end.
    RETURN v_count;
END
$$;

-- The one way in: a program's call, a user's transaction, enqueue() below and the hand-over all come here. Accepts all of the
-- jobs or none.
--
-- p_now     the time of acceptance
-- p_ids     ascending, the order in which rows are locked everywhere
-- p_places  the place of each job (from 1) in the order of acceptance
-- p_delays, p_times  when it is due; NULL, both of them: now
-- p_fits    1 if the payload of the job is within its cap
-- p_calls   the call, which is remembered with its jobs; none if it is never repeated
-- result    'stored' if all are new, 'repeated' if the call is known; else one answer per job, in the order of p_ids:
--           'new', 'known' and its state, 'taken' by another job, 'large'. Nothing is stored where one is taken or large.
CREATE FUNCTION accept(
    p_now int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_seqs int8[];
    v_stored int8 := 0;
    v_more int8;
    v_answers text[];
BEGIN
    IF cardinality(p_calls) > 0 THEN
        -- Before its jobs: a repeat waits here until the first one has ended.
        INSERT INTO calls (id, accepted_at) VALUES (p_calls[1], p_now) ON CONFLICT (id) DO NOTHING;
        IF NOT found THEN
            RETURN '{repeated}';
        END IF;
    END IF;
    IF cardinality(p_ids) = 1 THEN
        v_seqs := ARRAY[nextval('jobs_seq_seq')];
    ELSE
        SELECT array_agg(nextval('jobs_seq_seq')) INTO v_seqs FROM generate_series(1, cardinality(p_ids));
    END IF;
    -- A job that stands in the way may be gone before it is looked at: then there is room after all.
    FOR round IN 1 .. 100 LOOP
        WITH job AS (
            INSERT INTO jobs (seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload)
            SELECT
                v_seqs[a.place], a.id, p_now, greatest(p_now, coalesce(a.time, later(p_now, a.delay))),
                later(p_now, a.expiry), a.priority::int2, a.queue, a.kind, a.spec, a.tags, a.payload
            FROM unnest(
                p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries, p_specs, p_tags,
                p_fits
            ) AS a (id, place, queue, kind, payload, priority, delay, time, expiry, spec, tags, fits)
            WHERE a.fits = 1
            ON CONFLICT (id) DO NOTHING
            RETURNING
                seq, queue, kind, priority, due_at, expires_at, octet_length(payload) AS size,
                -- Links: a job with open parents is blocked, 0.
                CASE WHEN due_at > p_now THEN 1 ELSE 2 END AS state
        ), entry AS (
            INSERT INTO waiting (
                seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
            )
            SELECT j.seq, j.due_at, j.expires_at, 0, 0, 0, 0, 0, j.size, j.state, j.priority, j.queue, j.kind
            FROM job AS j
        )
        -- Unique keys are taken and gates are told here, before the jobs are counted.
        SELECT sum(moves(g.queue, -1, g.state, NULL, g.jobs)) INTO v_more
        FROM (SELECT j.queue, j.state, array_agg(j.seq) AS jobs FROM job AS j GROUP BY j.queue, j.state) AS g;
        v_stored := v_stored + coalesce(v_more, 0);
        IF v_stored = cardinality(p_ids) THEN
            RETURN '{stored}';
        END IF;
        v_answers := (
            SELECT
                array_agg(
                    CASE
                        WHEN r.seq = v_seqs[a.place] THEN 'new'
                        WHEN r.seq IS NULL AND a.fits = 1 THEN 'gone'
                        WHEN r.seq IS NULL THEN 'large'
                        WHEN r.queue = a.queue AND r.kind = a.kind AND r.payload = a.payload THEN 'known ' || r.state
                        ELSE 'taken'
                    END
                )
            FROM unnest(p_ids, p_places, p_queues, p_kinds, p_payloads, p_fits) AS a (id, place, queue, kind, payload, fits)
            LEFT JOIN records AS r ON r.id = ANY (ARRAY[a.id])
        );
        EXIT WHEN 'gone' <> ALL (v_answers);
    END LOOP;
    IF v_answers && '{large,taken}' THEN
        -- No other session has seen them.
        WITH gone AS (
            DELETE FROM waiting WHERE seq = ANY (v_seqs) RETURNING seq, queue, state
        ), removed AS (
            DELETE FROM jobs WHERE seq = ANY (v_seqs)
        )
        SELECT sum(moves(g.queue, g.state, -1, NULL, g.jobs)) INTO v_more
        FROM (SELECT queue, state, array_agg(seq) AS jobs FROM gone GROUP BY queue, state) AS g;
        DELETE FROM calls WHERE id = ANY (p_calls);
    END IF;
    RETURN v_answers;
END
$$;

-- When programs last said that they use these functions, those whose names have a digest.
CREATE TABLE functions (
    name    text COLLATE "C" PRIMARY KEY,
    seen_at int8 NOT NULL
);

-- Notes that a program uses these functions. At most once an hour, whatever the number of programs.
CREATE FUNCTION functions_seen(p_names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO functions AS f (name, seen_at)
    SELECT n.name, clock_micros() FROM unnest(p_names) AS n (name) ORDER BY n.name COLLATE "C"
    ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at WHERE f.seen_at < excluded.seen_at - 3600000000;
END
$$;

-- Drops functions that no program has used for so long. The time of one that has not been noted begins now.
CREATE FUNCTION functions_drop(p_age int8) RETURNS int8
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_function record;
    v_dropped int8 := 0;
BEGIN
    INSERT INTO functions (name, seen_at)
    SELECT DISTINCT p.proname, clock_micros()
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = current_schema()::regnamespace AND p.proname ~ '^(jobs|leases|queues|inspect|maintenance|within)_[a-z_]+_[0-9a-f]{12}$'
    ON CONFLICT (name) DO NOTHING;
    FOR v_function IN
        SELECT p.oid::regprocedure AS signature, f.name
        FROM functions AS f
        JOIN pg_catalog.pg_proc AS p ON p.proname = f.name AND p.pronamespace = current_schema()::regnamespace
        WHERE f.seen_at < clock_micros() - p_age
            -- Whatever else is noted there, only functions with a digest are dropped.
            AND p.proname ~ '^(jobs|leases|queues|inspect|maintenance|within)_[a-z_]+_[0-9a-f]{12}$'
    LOOP
        BEGIN
            EXECUTE 'DROP FUNCTION ' || v_function.signature;
            DELETE FROM functions WHERE name = v_function.name;
            v_dropped := v_dropped + 1;
        EXCEPTION
            -- Of another role, or in use by an object of the user: it stays, and the migration goes on.
            WHEN insufficient_privilege OR dependent_objects_still_exist THEN NULL;
        END;
    END LOOP;
    RETURN v_dropped;
END
$$;

-- Which worker has which duty, and until when.
CREATE TABLE duties (
    name       text COLLATE "C" PRIMARY KEY,
    holder     uuid NOT NULL,
    expires_at int8 NOT NULL
);
