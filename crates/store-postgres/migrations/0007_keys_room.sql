-- The last part of step 7: the way into queues with a capacity.

-- As accept, and heeds the capacity of queues: what is stored is counted with what waits, and all of it is taken back if that
-- is more than a queue takes. Calls side by side do not see each other's jobs. Others do not pay for it: programs call it for
-- queues that have a capacity.
--
-- result  that of accept; or one element: 'full', how many jobs wait, how many may, and the queue
CREATE FUNCTION accept_room(
    p_now int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[],
    p_definitions int8, p_keys text[], p_lifetimes text[], p_conflicts text[], p_waits int8[], p_lines text[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_answers text[];
    v_full text;
BEGIN
    v_answers := accept(
        p_now, p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries, p_specs, p_tags,
        p_calls, p_fits, p_definitions, p_keys, p_lifetimes, p_conflicts, p_waits, p_lines
    );
    -- The first job of the call that has no room names the refusal.
    SELECT (array_agg(concat_ws(' ', 'full', w.jobs - n.jobs, q.capacity, n.queue) ORDER BY n.place))[1] INTO v_full
    FROM (
        SELECT coalesce(p_queues[i], p_queues[1]) AS queue, count(*) AS jobs, min(coalesce(p_places[i], i)) AS place
        FROM generate_subscripts(p_ids, 1) AS i
        WHERE v_answers[1] = 'stored' OR v_answers[i] = 'new'
        GROUP BY 1
    ) AS n
    JOIN queues AS q ON q.name = ANY (ARRAY[n.queue])
    CROSS JOIN LATERAL (
        SELECT
            coalesce((SELECT sum(c.jobs) FROM counted AS c WHERE c.queue = n.queue AND c.state < 3), 0)
            + coalesce(sum(m.jobs * ((m.state BETWEEN 0 AND 2)::int4 - (m.state_before BETWEEN 0 AND 2)::int4)), 0) AS jobs
        FROM moved AS m
        WHERE m.queue = n.queue
    ) AS w
    WHERE q.capacity IS NOT NULL AND w.jobs > q.capacity;
    IF v_full IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'WL004';
    END IF;
    RETURN v_answers;
EXCEPTION
    WHEN SQLSTATE 'WL004' THEN RETURN ARRAY[v_full];
END
$$;

-- The way in for everyone who speaks SQL, as before: it heeds the capacity of queues. Jobs that it makes have no key.
CREATE OR REPLACE FUNCTION enqueue(
    kind text, payload json DEFAULT 'null', queue text DEFAULT 'default', priority int4 DEFAULT 0,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, expires_in interval DEFAULT NULL,
    timeout interval DEFAULT NULL, tags text[] DEFAULT '{}', id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path FROM CURRENT {planned}
AS $$
#variable_conflict use_variable
DECLARE
    -- Names are compared by their bytes, whatever collation the caller's have.
    v_kind text COLLATE "C" := kind;
    v_queue text COLLATE "C" := coalesce(queue, 'default');
    v_name text COLLATE "C";
    v_tags text COLLATE "C";
    v_spec text := '{"v":1,"timeout":' || span_micros(timeout) || '}';
    v_payload bytea := convert_to(coalesce(payload, 'null')::text, 'UTF8');
    v_priority int8 := coalesce(priority, 0);
    v_now int8 := clock_micros();
    v_due int8 := v_now;
    v_max int8;
    v_answer text;
    -- The time in milliseconds, the version, then random bits and among them the variant: ids made later sort later.
    v_id uuid := coalesce(id, (
        lpad(to_hex(v_now / 1000), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14)
    )::uuid);
BEGIN
    FOR v_name IN SELECT v_kind UNION ALL SELECT v_queue UNION ALL SELECT t.tag FROM unnest(tags) AS t (tag) LOOP
        IF v_name IS NULL OR v_name !~ '^[A-Za-z0-9_.:-]{1,128}$' THEN
            RAISE EXCEPTION 'name % cannot be a kind, queue or tag: use 1 to 128 of A-Z a-z 0-9 _ . : -',
                quote_nullable(left(v_name, 160))
            USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF cardinality(tags) > 16 THEN
        RAISE EXCEPTION '% tags: a job carries at most 16', cardinality(tags) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_priority NOT BETWEEN -32768 AND 32767 THEN
        RAISE EXCEPTION 'priority %: use -32768 to 32767, higher first', v_priority
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF expires_in < interval '0' OR timeout <= interval '0' THEN
        RAISE EXCEPTION 'expires_in is negative, or timeout is not above zero: use a span, as ''10 minutes'''
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_max := coalesce((SELECT q.payload_max FROM queues AS q WHERE q.name = v_queue), 1048576);
    IF octet_length(v_payload) > v_max THEN
        RAISE EXCEPTION 'payload has % bytes, the cap is %: store large content elsewhere and pass a reference',
            octet_length(v_payload), v_max
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF delay IS NOT NULL AND run_at IS NOT NULL THEN
        RAISE EXCEPTION 'both delay and run_at are given: use one of them' USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay > interval '0' THEN
        v_due := later(v_now, span_micros(delay));
    ELSIF run_at IS NOT NULL THEN
        -- Also for an instant before or after everything that a job can have.
        v_due := greatest(v_now, least(extract(epoch FROM run_at) * 1000000, 9223372036854775807))::int8;
    END IF;
    SELECT string_agg(DISTINCT t.tag COLLATE "C", ',' ORDER BY t.tag COLLATE "C") INTO v_tags
    FROM unnest(tags) AS t (tag);
    IF EXISTS (SELECT 1 FROM queues AS q WHERE q.name = v_queue AND q.capacity IS NOT NULL) THEN
        v_answer := (
            accept_room(
                v_now, ARRAY[v_id], '{1}', ARRAY[v_queue], ARRAY[v_kind], ARRAY[v_payload], ARRAY[v_priority], '{NULL}',
                ARRAY[v_due], ARRAY[span_micros(expires_in)], ARRAY[v_spec], ARRAY[v_tags], '{}', '{1}', NULL, '{}', '{}',
                '{}', '{}', '{}'
            )
        )[1];
    ELSE
        v_answer := (
            accept(
                v_now, ARRAY[v_id], '{1}', ARRAY[v_queue], ARRAY[v_kind], ARRAY[v_payload], ARRAY[v_priority], '{NULL}',
                ARRAY[v_due], ARRAY[span_micros(expires_in)], ARRAY[v_spec], ARRAY[v_tags], '{}', '{1}'
            )
        )[1];
    END IF;
    IF v_answer = 'taken' THEN
        RAISE EXCEPTION 'job id % is taken by a different job: make a new id, or repeat the same job under it', v_id
        USING ERRCODE = 'unique_violation';
    ELSIF v_answer LIKE 'full %' THEN
        RAISE EXCEPTION 'queue % is full: % jobs wait, and it takes %; enqueue later', v_queue, split_part(v_answer, ' ', 2),
            split_part(v_answer, ' ', 3)
        USING ERRCODE = 'program_limit_exceeded';
    END IF;
    RETURN v_id;
END
$$;
