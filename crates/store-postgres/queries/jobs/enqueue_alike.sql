-- Accepts many jobs that are alike: the short form of jobs/enqueue_any; see accept_alike in migrations/0010_alike. Where that does
-- not do, it asks accept.
--
-- p_definitions  the version of the queues' definitions by which the caller has checked the payloads
-- p_*            as in accept_alike
-- result         the answers of accept
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_queue text, p_kind text, p_payloads bytea[], p_priority int8, p_delay int8, p_spec text,
    p_tags text, p_call uuid, p_keys uuid[], p_lifetime text
) RETURNS TABLE (o_answer text)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
DECLARE
    v_count int4[] := ARRAY[cardinality(p_ids)];
    v_answers text[] := accept_alike(
        clock_micros(), p_ids, p_queue, p_kind, p_payloads, p_priority, p_delay, p_spec, p_tags, p_call, p_definitions, p_keys,
        p_lifetime
    );
BEGIN
    IF v_answers IS NULL THEN
        v_answers := accept(
            clock_micros(), p_ids, '{}', ARRAY[p_queue], ARRAY[p_kind], p_payloads, array_fill(p_priority, v_count),
            array_fill(p_delay, v_count), '{}', '{}', array_fill(p_spec, v_count), array_fill(p_tags, v_count), ARRAY[p_call], '{}',
            p_definitions, p_keys::text[],
            CASE WHEN cardinality(p_keys) > 0 THEN array_fill(p_lifetime, v_count) ELSE '{}' END, '{}', '{}', '{}'
        );
    END IF;
    FOREACH o_answer IN ARRAY v_answers LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
