-- The way in for everyone who speaks SQL: psql, a trigger, another language, inside any transaction. Parameters
-- keep their names and meaning; new ones come at the end and have a default. NULL means the default everywhere.
--
--     SELECT windlass.enqueue('mail.send', '{"to": "ferris@example.org"}', queue => 'mail', delay => '5 minutes');
--
-- A repeat under the same id with the same queue, kind and payload changes nothing. Workers find the job when they
-- next look, at most a few seconds after the commit; call wake() after the commit to have it start at once.
--
-- A caller needs no right but to call the two functions: they act with the rights of the schema's owner. Their path
-- names the store's schema and puts temporary tables last, so that a caller's table of the same name is not taken for the
-- store's.

-- A span in microseconds, from nothing to the end of time; NULL for NULL.
CREATE FUNCTION span_micros(span interval) RETURNS int8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT greatest(0, least(extract(epoch FROM span) * 1000000, 9223372036854775807))::int8';

CREATE FUNCTION enqueue(
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
    v_answer := (
        accept(
            v_now, ARRAY[v_id], '{1}', ARRAY[v_queue], ARRAY[v_kind], ARRAY[v_payload], ARRAY[v_priority], '{NULL}',
            ARRAY[v_due], ARRAY[span_micros(expires_in)], ARRAY[v_spec], ARRAY[v_tags], '{}', '{1}'
        )
    )[1];
    IF v_answer = 'taken' THEN
        RAISE EXCEPTION 'job id % is taken by a different job: make a new id, or repeat the same job under it', v_id
        USING ERRCODE = 'unique_violation';
    END IF;
    RETURN v_id;
END
$$;

-- Wakes idle workers. To be called after the commit, as a statement of its own: a notification inside a transaction
-- makes every commit of the server wait in one line.
CREATE FUNCTION wake() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path FROM CURRENT
AS $$ SELECT pg_notify('windlass_' || current_schema(), '0 w') $$;

REVOKE ALL ON FUNCTION enqueue(text, json, text, int4, interval, timestamptz, interval, interval, text[], uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION wake() FROM PUBLIC;
