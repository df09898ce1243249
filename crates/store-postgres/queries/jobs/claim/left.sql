-- A part of the claim: what the rules of a queue leave of what it wants.
--
-- Looks without a lock first: where there is nothing to take, nothing is written. Where the concurrency or the rate leave
-- something, the definition is locked until the claim has ended, and all is looked at again. If another claim has locked it, there is
-- nothing to take now.
--
-- p_want     how many jobs, of which p_at_once can begin at once: a queue with limits gives no others
-- p_is_keyed whether its gates are asked although no kind is left, since their time may have come
-- result     how many, of which kinds; the queue, if its running jobs are counted; whether another claim had locked it; how
--            many jobs the limits of the queue leave (NULL: any number), and whether it has any, also for keys; and what a level
--            of priority is worth, if that is aged
CREATE FUNCTION {function}(p_now int8, p_queue text, p_kinds text[], p_want int8, p_at_once int8, p_is_keyed bool)
RETURNS TABLE (
    o_want int8, o_kinds text[], o_counted text[], o_met_locked bool, o_room int8, o_is_limited bool, o_aging int8
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_config text; v_read text; v_counted_from int8; v_is_locked bool; v_running int8;
    v_rules record;
BEGIN
    o_met_locked := false;
    FOREACH v_is_locked IN ARRAY '{false,true}'::bool[] LOOP
        IF v_is_locked THEN
            SELECT q.config, q.counted_from INTO v_config, v_counted_from
            FROM queues AS q
            WHERE q.name = p_queue
            FOR NO KEY UPDATE SKIP LOCKED;
            o_met_locked := NOT found;
            -- By a time that is read when the claims before this one have ended.
            p_now := greatest(p_now, clock_micros());
        ELSE
            SELECT q.config, q.counted_from INTO v_config, v_counted_from FROM queues AS q WHERE q.name = p_queue;
        END IF;
        IF o_met_locked THEN
            o_want := 0; o_counted := '{}';
            EXIT;
        END IF;
        IF v_config IS DISTINCT FROM v_read THEN
            SELECT r.* INTO v_rules FROM {queues_rules}(v_config, p_now) AS r;
            v_read := v_config; o_is_limited := v_rules.o_is_limited; o_aging := v_rules.o_aging;
        END IF;
        o_kinds := ARRAY(
            SELECT k.name FROM unnest(p_kinds) AS k (name) WHERE NOT v_rules.o_is_paused AND k.name <> ALL (v_rules.o_kinds)
        );
        o_want := least(p_want, CASE WHEN v_rules.o_is_limited THEN p_at_once END);
        o_want := CASE WHEN p_is_keyed OR cardinality(o_kinds) > 0 THEN greatest(o_want, 0) ELSE 0 END;
        o_counted := '{}'; o_room := NULL;
        EXIT WHEN o_want = 0;
        IF v_rules.o_concurrency IS NOT NULL THEN
            o_counted := ARRAY[p_queue];
            IF v_counted_from = 0 THEN
                SELECT count(*) INTO v_running
                FROM (SELECT 1 FROM running AS r WHERE r.queue = p_queue LIMIT v_rules.o_concurrency) AS r;
            ELSE
                v_running := ({running});
            END IF;
            o_room := greatest(v_rules.o_concurrency - v_running, 0);
        END IF;
        IF v_rules.o_jobs IS NOT NULL THEN
            o_room := least(
                o_room,
                (SELECT p.o_jobs FROM {queues_permits}(p_now, p_queue, v_rules.o_jobs, v_rules.o_burst, v_rules.o_step) AS p)
            );
        END IF;
        o_want := least(o_want, o_room);
        EXIT WHEN o_want = 0 OR v_rules.o_concurrency IS NULL AND v_rules.o_jobs IS NULL;
    END LOOP;
    IF v_is_locked AND cardinality(o_counted) > 0 AND v_counted_from IS DISTINCT FROM 0 THEN
        PERFORM 1 FROM {jobs_mark}(p_now, p_queue, v_counted_from);
    END IF;
    RETURN NEXT;
END
$$;
