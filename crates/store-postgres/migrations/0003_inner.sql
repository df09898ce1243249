-- What must be true whichever program calls. Functions of programs (see src/functions.rs) call these by their names, which
-- stay; a later step may replace their bodies.

-- The same instant as before, by arithmetic on one float instead of numerics.
CREATE OR REPLACE FUNCTION clock_micros() RETURNS int8
LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT (date_part(''epoch'', clock_timestamp()) * 1000000)::int8';

-- By numbers instead of names: to find the place of an entry by names was a tenth of what a job in a batch costs. Statements
-- compare the names as well, so two names with one number are told apart.
DROP INDEX waiting_ready;
CREATE INDEX waiting_ready ON waiting (hashtext(queue), hashtext(kind), (~priority), due_at, seq) WHERE state = 2;
DROP INDEX ended_oldest;
CREATE INDEX ended_oldest ON ended (hashtext(queue), state, finished_at, seq);

-- A renewal looks at all that its worker runs instead, every few seconds; each claim wrote this one.
DROP INDEX running_stopping;

-- How many jobs a queue holds. Every call that moves jobs adds a row to moved, so that no two of them wait for each other;
-- maintenance folds them into counted. Both, in one snapshot, are exact. Rows of moved are added for every lone job: it has
-- no index and few columns.
DROP TABLE counts;

CREATE TABLE counted (
    queue text COLLATE "C",
    state int8,
    jobs  int8 NOT NULL,
    PRIMARY KEY (queue, state)
) WITH (fillfactor = 50);

CREATE TABLE moved (
    state_before int8 NOT NULL,                   -- -1: outside
    state        int8 NOT NULL,                   -- -1: outside
    jobs         int8 NOT NULL,
    queue        text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE VIEW counts (queue, blocked, scheduled, ready, running, completed, dead, cancelled) AS
SELECT
    c.queue,
    coalesce(sum(c.jobs) FILTER (WHERE c.state = 0), 0)::int8, coalesce(sum(c.jobs) FILTER (WHERE c.state = 1), 0)::int8,
    coalesce(sum(c.jobs) FILTER (WHERE c.state = 2), 0)::int8, coalesce(sum(c.jobs) FILTER (WHERE c.state = 3), 0)::int8,
    coalesce(sum(c.jobs) FILTER (WHERE c.state = 4), 0)::int8, coalesce(sum(c.jobs) FILTER (WHERE c.state = 5), 0)::int8,
    coalesce(sum(c.jobs) FILTER (WHERE c.state = 6), 0)::int8
FROM (
    SELECT queue, state, jobs FROM counted
    UNION ALL
    SELECT queue, state, jobs FROM moved
    UNION ALL
    SELECT queue, state_before, -jobs FROM moved
) AS c
GROUP BY c.queue;

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
-- It is told everything and looks at no row of these jobs: the statement that it is called in may not have written them.
CREATE FUNCTION moves(
    p_queue text, p_from int8, p_to int8, p_reason text, p_jobs int8[], p_is_kept bool DEFAULT true,
    p_queues text[] DEFAULT NULL
) RETURNS int8
LANGUAGE plpgsql VOLATILE
AS $$
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
    -- Here come, in this order:
    -- tallies, by queue, p_to and p_reason;
    -- gates, which a job gives back when it leaves running (p_from = 3);
    -- unique keys, which it gives back at its start (p_to = 3) or its end (p_to of 4, 5, 6 and -1);
    -- dependents, which are told of an end;
    -- follow-ups, which are accepted at an end.
    RETURN cardinality(p_jobs);
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
-- p_definitions  the version of the queues' definitions by which the caller has checked the payloads; NULL: any
-- result    'stored' if all are new, 'repeated' if the call is known, 'stale' if the definitions have changed; else one
--           answer per job, in the order of p_ids: 'new', 'known' and its state, 'taken' by another job, 'large'. Nothing is
--           stored where one is taken or large.
--
-- Of p_queues and p_kinds, one element stands for all jobs. Of the others but p_ids and p_payloads, none does: the jobs are in
-- the order of their places, have the default, and fit.
CREATE FUNCTION accept(
    p_now int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[],
    p_definitions int8 DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_seqs int8[]; -- by place
    v_stored int8 := 0;
    v_more int8;
    v_answers text[];
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
    SELECT array_agg(nextval('jobs_seq_seq')) INTO v_seqs FROM generate_series(1, cardinality(p_ids));
    -- A job that stands in the way may be gone before it is looked at: then there is room after all.
    FOR round IN 1 .. 100 LOOP
        INSERT INTO jobs (seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload)
        SELECT
            v_seqs[coalesce(p_places[i], i)], p_ids[i], p_now,
            greatest(p_now, coalesce(p_times[i], later(p_now, p_delays[i]))), later(p_now, p_expiries[i]),
            coalesce(p_priorities[i], 0), coalesce(p_queues[i], p_queues[1]), coalesce(p_kinds[i], p_kinds[1]), p_specs[i],
            p_tags[i], p_payloads[i]
        FROM (SELECT generate_series(1, cardinality(p_ids)) AS i) AS a
        WHERE coalesce(p_fits[i], 1) = 1
        ON CONFLICT (id) DO NOTHING;
        GET DIAGNOSTICS v_more = ROW_COUNT;
        v_stored := v_stored + v_more;
        -- Links: a job with open parents is blocked, 0.
        IF v_more = cardinality(p_ids) THEN
            INSERT INTO waiting (
                seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
            )
            SELECT
                v_seqs[coalesce(p_places[a.i], a.i)], a.due_at, later(p_now, p_expiries[a.i]), 0, 0, 0, 0, 0,
                octet_length(p_payloads[a.i]), CASE WHEN a.due_at > p_now THEN 1 ELSE 2 END, coalesce(p_priorities[a.i], 0),
                coalesce(p_queues[a.i], p_queues[1]), coalesce(p_kinds[a.i], p_kinds[1])
            FROM (
                SELECT i, greatest(p_now, coalesce(p_times[i], later(p_now, p_delays[i]))) AS due_at
                FROM (SELECT generate_series(1, cardinality(p_ids)) AS i) AS n
            ) AS a;
            EXIT;
        END IF;
        INSERT INTO waiting (
            seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
        )
        SELECT
            j.seq, j.due_at, j.expires_at, 0, 0, 0, 0, 0, octet_length(j.payload),
            CASE WHEN j.due_at > p_now THEN 1 ELSE 2 END, j.priority, j.queue, j.kind
        FROM jobs AS j
        WHERE j.seq = ANY (v_seqs) AND NOT EXISTS (SELECT 1 FROM waiting AS w WHERE w.seq = ANY (ARRAY[j.seq]));
        EXIT WHEN v_stored = cardinality(p_ids);
        v_answers := (
            SELECT
                array_agg(
                    CASE
                        WHEN r.seq = v_seqs[coalesce(p_places[a.i], a.i)] THEN 'new'
                        WHEN r.seq IS NULL AND coalesce(p_fits[a.i], 1) = 1 THEN 'gone'
                        WHEN r.seq IS NULL THEN 'large'
                        WHEN r.queue = coalesce(p_queues[a.i], p_queues[1]) AND r.kind = coalesce(p_kinds[a.i], p_kinds[1])
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
    -- Unique keys are taken and gates are told here, before the jobs are counted.
    IF v_stored = cardinality(p_ids) AND cardinality(p_delays) = 0 AND cardinality(p_times) = 0 THEN
        v_more := moves(
            CASE WHEN cardinality(p_queues) = 1 THEN p_queues[1] END, -1, 2, NULL, v_seqs, true, p_queues
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

-- The short form of accept, for one plain job: nothing that is decided by but its queue, kind and priority.
--
-- p_payload  within its cap
-- result     'stored', 'repeated' or 'stale', or the job's own answer
CREATE FUNCTION accept_plain(
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
        v_seq := moves(p_queue, -1, 2, NULL, ARRAY[v_seq]);
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
