-- Accepts jobs with all that a call can say: some have a unique key or a key, or go to a queue with a capacity. All of them or
-- none; see accept and accept_room in migrations/0007_keys.
--
-- p_definitions  the version of the queues' definitions by which the caller has checked the payloads
-- p_*            as in accept
-- result         the answers of accept
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[],
    p_keys text[], p_lifetimes text[], p_conflicts text[], p_waits int8[], p_lines text[]
) RETURNS TABLE (o_answer text)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_answers text[];
BEGIN
    IF EXISTS (SELECT 1 FROM queues AS q WHERE q.name = ANY (p_queues) AND q.capacity IS NOT NULL) THEN
        v_answers := accept_room(
            clock_micros(), p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries,
            p_specs, p_tags, p_calls, p_fits, p_definitions, p_keys, p_lifetimes, p_conflicts, p_waits, p_lines
        );
    ELSE
        v_answers := accept(
            clock_micros(), p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries,
            p_specs, p_tags, p_calls, p_fits, p_definitions, p_keys, p_lifetimes, p_conflicts, p_waits, p_lines
        );
    END IF;
    FOREACH o_answer IN ARRAY v_answers LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
