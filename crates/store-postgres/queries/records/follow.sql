-- Ends attempts, or leaves them running, accepts the jobs that follow and changes records: all of it, or nothing and what stands in
-- the way. Attempts, jobs and records of a call are different ones, so that what is refused of one is refused whatever the others do.
--
-- p_way       how it ends: 'fence' and 'lost' as in jobs/settle, 'late' as in jobs/late, 'complete' as in jobs/complete; or 'hold':
--             it goes on, if its fence still holds
-- p_ids       ascending, the order in which rows are locked everywhere; those of jobs come before unique keys, and records last
-- p_fences .. p_dropped  as in jobs/settle. Of p_queues, p_fences, p_nonces and p_attempts one element may stand for all where none
--             of the ways 'fence', 'lost' and 'late' is gone
-- p_follows   1: something follows this attempt
-- p_orders    the place of each attempt in the call
-- p_wanted, p_wanters    unique keys of jobs that follow, by p_orders of their attempts
-- p_job_ids .. p_lines   as in accept
-- p_record_queues .. p_ttls  as in records/change
-- result      one row. 'done': places (from 1) and states of the attempts; no places: of all, none: they completed. Or nothing was written: 'stale', the definitions have
--             changed; 'apart', an attempt has the unique key that a job before its end wants; 'unfollowed', with places and states
--             of those attempts whose right holds: others have lost it, or one is cancelled in place of being put back; 'refused', with
--             the answers of accept; 'conflict', with places of records, and the versions that were found
CREATE FUNCTION {function}(
    p_way text, p_definitions int8, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[], p_states int8[],
    p_delays int8[], p_attempts int8[], p_stalls int8[], p_ambiguous int8[], p_backoffs int8[], p_reasons text[],
    p_endings text[], p_errors text[], p_outputs bytea[], p_dropped int8[],
    p_follows int8[], p_orders int8[], p_wanted uuid[], p_wanters int8[],
    p_job_ids uuid[], p_places int8[], p_job_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_job_delays int8[], p_times int8[], p_expiries int8[], p_specs text[], p_tags text[], p_fits int8[],
    p_keys text[], p_lifetimes text[], p_conflicts text[], p_waits int8[], p_lines text[],
    p_record_queues text[], p_record_keys text[], p_expects int8[], p_expected int8[], p_versions int8[], p_values bytea[],
    p_ttls int8[]
) RETURNS TABLE (o_answer text, o_places int8[], o_numbers int8[], o_said text[])
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_places int8[];
    v_found int8[];
BEGIN
    IF cardinality(p_wanted) > 0 AND cardinality(p_ids) > 1 AND EXISTS (
        SELECT 1
        FROM unnest(p_ids) WITH ORDINALITY AS a (id, place)
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
        WHERE j.unique_key IS NOT NULL AND p_wanters[array_position(p_wanted, j.unique_key)] < p_orders[a.place]
    ) THEN
        o_answer := 'apart';
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_way = 'complete' THEN
        SELECT s.o_answer, s.o_places INTO o_answer, o_places
        FROM {jobs_complete}(
            p_definitions, p_ids, p_queues, p_fences, p_nonces, p_attempts, (p_dropped[1] & 16 = 0)::int4
        ) AS s;
    ELSIF p_way = 'late' THEN
        SELECT min(s.o_answer), coalesce(array_agg(s.o_place), '{}'), array_agg(s.o_state) INTO o_answer, o_places, o_numbers
        FROM {jobs_late}(
            p_definitions, p_ids, p_queues, p_fences, p_nonces, p_states, p_attempts, p_stalls, p_ambiguous, p_backoffs,
            p_reasons, p_endings, p_errors, p_outputs, p_dropped
        ) AS s;
    ELSIF p_way = 'hold' THEN
        SELECT 'done', coalesce(array_agg(h.place), '{}'), array_agg(h.state) INTO o_answer, o_places, o_numbers
        FROM (
            SELECT a.place, 3::int8 AS state
            FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
            JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
            JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
            WHERE r.fence = coalesce(a.fence, p_fences[1]) AND r.nonce = coalesce(a.nonce, p_nonces[1])
                AND j.queue = coalesce(a.queue, p_queues[1])
            -- It does not end before this has: what it writes is written while it has the right to.
            FOR KEY SHARE OF r
        ) AS h;
    ELSE
        SELECT min(s.o_answer), coalesce(array_agg(s.o_place), '{}'), array_agg(s.o_state) INTO o_answer, o_places, o_numbers
        FROM {jobs_settle}(
            p_definitions, p_way, p_ids, p_queues, p_fences, p_nonces, p_states, p_delays, p_attempts, p_stalls, p_ambiguous,
            p_backoffs, p_reasons, p_endings, p_errors, p_outputs, p_dropped
        ) AS s;
    END IF;
    IF o_answer = 'stale' THEN
        o_places := NULL;
        o_numbers := NULL;
        RETURN NEXT;
        RETURN;
    ELSIF cardinality(o_places) < cardinality(p_ids)
        OR 6 = ANY (o_numbers)
            AND EXISTS (
                SELECT 1
                FROM unnest(o_places, o_numbers) AS s (place, state)
                WHERE s.state = 6 AND p_states[s.place] < 4 AND p_follows[s.place] = 1
            )
    THEN
        o_answer := 'unfollowed';
        RAISE EXCEPTION USING ERRCODE = 'WL006';
    END IF;
    IF cardinality(p_job_ids) > 0 THEN
        o_said := accept(
            clock_micros(), p_job_ids, p_places, p_job_queues, p_kinds, p_payloads, p_priorities, p_job_delays, p_times,
            p_expiries, p_specs, p_tags, '{}', p_fits, p_definitions, p_keys, p_lifetimes, p_conflicts, p_waits, p_lines
        );
        IF o_said && '{stale,taken,large}' OR o_said[1] LIKE 'keyless %' THEN
            o_answer := CASE WHEN o_said[1] = 'stale' THEN 'stale' ELSE 'refused' END;
            RAISE EXCEPTION USING ERRCODE = 'WL006';
        END IF;
    END IF;
    IF cardinality(p_record_keys) > 0 THEN
        SELECT array_agg(c.o_place), array_agg(c.o_found) INTO v_places, v_found
        FROM {records_change}(p_record_queues, p_record_keys, p_expects, p_expected, p_versions, p_values, p_ttls) AS c;
        IF v_places IS NOT NULL THEN
            o_answer := 'conflict';
            o_places := v_places;
            o_numbers := v_found;
            RAISE EXCEPTION USING ERRCODE = 'WL006';
        END IF;
    END IF;
    o_answer := 'done';
    RETURN NEXT;
EXCEPTION
    WHEN SQLSTATE 'WL006' THEN RETURN NEXT;
END
$$;
