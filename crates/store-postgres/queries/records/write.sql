-- Accepts jobs and changes records of a queue, all of it or nothing. A user's transaction goes on whatever the answer is.
--
-- p_definitions .. p_lines  as in jobs/enqueue_any; no jobs: the records alone are changed
-- p_record_keys .. p_ttls   as in records/change, of the queue p_queue
-- result  the answers of accept; one row 'changed' if there are no jobs; or one row 'conflict' per record that is not as expected:
--         its place (from 1), and the version that was found
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_calls uuid[], p_fits int8[],
    p_keys text[], p_lifetimes text[], p_conflicts text[], p_waits int8[], p_lines text[],
    p_queue text, p_record_keys text[], p_expects int8[], p_expected int8[], p_versions int8[], p_values bytea[], p_ttls int8[]
) RETURNS TABLE (o_answer text, o_place int8, o_found int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_answers text[] := '{changed}';
    v_places int8[];
    v_found int8[];
BEGIN
    IF cardinality(p_ids) > 0 THEN
        IF EXISTS (SELECT 1 FROM queues AS q WHERE q.name = p_queue AND q.capacity IS NOT NULL) THEN
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
    END IF;
    IF cardinality(p_record_keys) > 0 AND NOT v_answers && '{stale,repeated,taken,large}'
        AND v_answers[1] !~ '^(keyless|full) '
    THEN
        SELECT array_agg(c.o_place), array_agg(c.o_found) INTO v_places, v_found
        FROM {records_change}(ARRAY[p_queue], p_record_keys, p_expects, p_expected, p_versions, p_values, p_ttls) AS c;
        IF v_places IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'WL006';
        END IF;
    END IF;
    RETURN QUERY SELECT a.answer, NULL::int8, NULL::int8 FROM unnest(v_answers) AS a (answer);
EXCEPTION
    WHEN SQLSTATE 'WL006' THEN
        RETURN QUERY SELECT 'conflict', c.place, c.found FROM unnest(v_places, v_found) AS c (place, found);
END
$$;
